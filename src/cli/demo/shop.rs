//! A small shop, which chooses the next transaction. It uses no database.

use fastrand::Rng;
use serde_json::{Value, json};

/// Numbers of open orders below which a new one is created, and from which on none is.
const OPEN_ORDERS: std::ops::Range<usize> = 3..8;
/// Number of transactions of which one is rolled back.
const ROLL_BACK_EVERY: u32 = 8;
/// Number of orders of which one is paid in the transaction that creates it.
const EXPRESS_EVERY: u32 = 5;
/// Number of paid orders of which one is cancelled instead of shipped.
const CANCEL_EVERY: u32 = 6;
const FIRST_ORDER_ID: i64 = 1001;

const CUSTOMERS: [&str; 8] = ["Ada", "Grace", "Edsger", "Barbara", "Tony", "Frances", "Niklaus", "Radia"];
/// Name and price in cents.
const GOODS: [(&str, i64); 6] = [
    ("teapot", 2490),
    ("green tea", 780),
    ("cup", 650),
    ("kettle", 4900),
    ("honey", 540),
    ("tea towel", 890),
];
const CARRIERS: [&str; 3] = ["DHL", "UPS", "PostNL"];
const REASONS: [&str; 3] = ["found it cheaper", "ordered twice", "changed my mind"];

/// End of the business transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Commit,
    /// The reason in the shop's terms.
    RollBack(&'static str),
}

/// State of the order itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    New,
    Paid,
    Shipped,
    Cancelled,
}

/// An outbox row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) event_type: &'static str,
    pub(super) payload: Value,
}

/// One business transaction on one order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Transaction {
    pub(super) order: Order,
    /// True if it creates the order.
    pub(super) is_new: bool,
    pub(super) events: Vec<Event>,
    pub(super) fate: Fate,
}

/// An order as it is after the transaction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Order {
    pub(super) id: i64,
    pub(super) customer: &'static str,
    pub(super) total_cents: i64,
    pub(super) status: Status,
    item: &'static str,
    quantity: i64,
}

/// The orders that are open, and the chance that moves them.
#[derive(Debug)]
pub(super) struct Shop {
    rng: Rng,
    open: Vec<Order>,
    next_id: i64,
}

impl Shop {
    pub(super) const fn new(rng: Rng) -> Self {
        Self { rng, open: Vec::new(), next_id: FIRST_ORDER_ID }
    }

    /// Returns the next transaction. One that will be rolled back only uses up a number.
    pub(super) fn next(&mut self) -> Transaction {
        let count = self.open.len();
        let wants_new = count < OPEN_ORDERS.start || count < OPEN_ORDERS.end && self.rng.bool();
        let (at, before) = match self.pick().filter(|_| !wants_new) {
            Some((at, order)) => (Some(at), order),
            None => (None, self.new_order()),
        };
        let is_new = at.is_none();
        let (order, events) = if is_new { self.open_order(before) } else { self.advance(before) };
        let fate = self.fate(&order);
        if fate == Fate::Commit {
            at.map(|at| self.open.swap_remove(at));
            if matches!(order.status, Status::New | Status::Paid) {
                self.open.push(order.clone());
            }
        }
        Transaction { order, is_new, events, fate }
    }

    fn pick(&mut self) -> Option<(usize, Order)> {
        let at = (!self.open.is_empty()).then(|| self.rng.usize(..self.open.len()))?;
        Some((at, self.open.get(at)?.clone()))
    }

    fn new_order(&mut self) -> Order {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let (item, cents) = self.rng.choice(GOODS).unwrap_or_default();
        let quantity = self.rng.i64(1..=4);
        let customer = self.rng.choice(CUSTOMERS).unwrap_or_default();
        Order {
            id,
            customer,
            total_cents: cents.saturating_mul(quantity),
            status: Status::New,
            item,
            quantity,
        }
    }

    fn open_order(&mut self, order: Order) -> (Order, Vec<Event>) {
        let items = json!([{ "item": order.item, "quantity": order.quantity }]);
        let payload =
            json!({ "customer": order.customer, "items": items, "total": money(order.total_cents) });
        let mut events = vec![Event { event_type: "OrderCreated", payload }];
        if self.rng.u32(..EXPRESS_EVERY) > 0 {
            return (order, events);
        }
        events.push(paid(&order, "paypal"));
        (Order { status: Status::Paid, ..order }, events)
    }

    fn advance(&mut self, order: Order) -> (Order, Vec<Event>) {
        let (status, event) = if order.status == Status::New {
            (Status::Paid, paid(&order, "card"))
        } else if self.rng.u32(..CANCEL_EVERY) == 0 {
            let payload = json!({ "reason": self.rng.choice(REASONS), "refund": money(order.total_cents) });
            (Status::Cancelled, Event { event_type: "OrderCancelled", payload })
        } else {
            let parcel = format!("JD{:08}", self.rng.u32(..100_000_000));
            let payload = json!({ "carrier": self.rng.choice(CARRIERS), "parcel": parcel });
            (Status::Shipped, Event { event_type: "OrderShipped", payload })
        };
        (Order { status, ..order }, vec![event])
    }

    fn fate(&mut self, order: &Order) -> Fate {
        if self.rng.u32(..ROLL_BACK_EVERY) > 0 {
            return Fate::Commit;
        }
        Fate::RollBack(match order.status {
            Status::New => "out of stock",
            Status::Paid => "payment declined",
            Status::Shipped => "no parcel label",
            Status::Cancelled => "already packed",
        })
    }
}

impl Status {
    /// Returns the column's value.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Paid => "paid",
            Self::Shipped => "shipped",
            Self::Cancelled => "cancelled",
        }
    }
}

fn paid(order: &Order, method: &str) -> Event {
    let payload = json!({ "method": method, "amount": money(order.total_cents) });
    Event { event_type: "OrderPaid", payload }
}

/// Formats an amount: money is no floating-point number.
pub(super) fn money(cents: i64) -> String {
    format!("{}.{:02}", cents / 100, cents.unsigned_abs() % 100)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::{TestCaseError, any, prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn every_order_lives_a_whole_life(seed in any::<u64>()) {
            let mut shop = Shop::new(Rng::with_seed(seed));
            let mut known: HashMap<i64, Status> = HashMap::new();
            for _ in 0..200 {
                let Transaction { order, is_new, events, fate } = shop.next();
                let types: Vec<_> = events.iter().map(|event| event.event_type).collect();
                let expected: &[&str] = match (known.get(&order.id), order.status) {
                    (None, Status::New) => &["OrderCreated"],
                    (None, Status::Paid) => &["OrderCreated", "OrderPaid"],
                    (Some(Status::New), Status::Paid) => &["OrderPaid"],
                    (Some(Status::Paid), Status::Shipped) => &["OrderShipped"],
                    (Some(Status::Paid), Status::Cancelled) => &["OrderCancelled"],
                    step => return Err(TestCaseError::fail(format!("{step:?}"))),
                };
                prop_assert_eq!(types, expected);
                prop_assert_eq!(is_new, !known.contains_key(&order.id));
                if fate == Fate::Commit {
                    known.insert(order.id, order.status);
                }
                prop_assert!(shop.open.len() <= OPEN_ORDERS.end);
            }
            prop_assert!(known.len() > 20);
        }
    }

    #[test]
    fn both_fates_and_all_events_come_soon() {
        let mut shop = Shop::new(Rng::with_seed(1));
        let transactions: Vec<_> = (0..200).map(|_| shop.next()).collect();
        assert!(transactions.iter().any(|transaction| transaction.fate != Fate::Commit));
        for event_type in ["OrderCreated", "OrderPaid", "OrderShipped", "OrderCancelled"] {
            let mut events = transactions.iter().flat_map(|transaction| &transaction.events);
            assert!(events.any(|event| event.event_type == event_type), "{event_type}");
        }
    }

    #[test]
    fn money_has_two_decimals() {
        assert_eq!([money(2490), money(5), money(0)], ["24.90", "0.05", "0.00"]);
    }
}
