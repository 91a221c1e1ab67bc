//! Well-known binary of geometries, with the flags of PostGIS's extended form.

/// Flags in the geometry's type.
const HAS_Z: u32 = 0x8000_0000;
const HAS_M: u32 = 0x4000_0000;
const HAS_SRID: u32 = 0x2000_0000;
/// Bits of the geometry's type that identify its kind.
const KIND: u32 = 0xFF;
/// Bytes of the byte order and the type.
const HEAD_LEN: usize = 5;
const SRID_LEN: usize = 4;
/// Maximum depth of nested collections; PostGIS reads no deeper ones.
const DEPTH_MAX: usize = 200;

/// Byte order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    const fn of(byte: u8) -> Self {
        if byte == 1 { Self::Little } else { Self::Big }
    }

    const fn read(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    const fn write(self, number: u32) -> [u8; 4] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }
}

/// Reports whether the geometry contains its reference system.
pub(super) fn is_extended(wkb: &[u8]) -> bool {
    head(wkb).is_some_and(|(_, kind, _)| kind & HAS_SRID != 0)
}

/// Returns the geometry without its reference system; none when it is too short.
pub(super) fn without_srid(wkb: &[u8]) -> Option<Vec<u8>> {
    let (order, kind, rest) = head(wkb)?;
    Some(joined(wkb, order.write(kind & !HAS_SRID), &[], rest.get(SRID_LEN..)?))
}

/// Returns the geometry with this reference system; none when it is too short.
pub(super) fn with_srid(wkb: &[u8], srid: i32) -> Option<Vec<u8>> {
    let (order, kind, rest) = head(wkb)?;
    Some(joined(wkb, order.write(kind | HAS_SRID), &order.write(srid.cast_unsigned()), rest))
}

fn head(wkb: &[u8]) -> Option<(Order, u32, &[u8])> {
    let (head, rest) = wkb.split_first_chunk::<HEAD_LEN>()?;
    let [order, kind @ ..] = *head;
    let order = Order::of(order);
    Some((order, order.read(kind), rest))
}

fn joined(wkb: &[u8], kind: [u8; 4], srid: &[u8], rest: &[u8]) -> Vec<u8> {
    [wkb.get(..1).unwrap_or_default(), &kind, srid, rest].concat()
}

/// Swaps the first two ordinates of each point. Returns none for a geometry that is too short, or of a kind that Debezium
/// does not know, such as a curve.
pub(super) fn swapped(wkb: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = wkb.split_first()?;
    let order = Order::of(*first);
    let mut out = Vec::with_capacity(wkb.len());
    out.push(*first);
    let mut swap = Swap { rest, out, order, written: order };
    swap.geometry(DEPTH_MAX)?;
    Some(swap.out)
}

/// Geometry during the swap of its ordinates.
struct Swap<'w> {
    rest: &'w [u8],
    out: Vec<u8>,
    /// Byte order of the input.
    order: Order,
    /// Byte order of the output: that of the whole geometry. A part that declares another one is written in this one too, as
    /// by Debezium.
    written: Order,
}

impl Swap<'_> {
    fn geometry(&mut self, depth: usize) -> Option<()> {
        let kind = self.number()?;
        let more = usize::from(kind & HAS_Z != 0) + usize::from(kind & HAS_M != 0);
        if kind & HAS_SRID != 0 {
            self.number()?;
        }
        match kind & KIND {
            1 => self.point(more),
            2 => self.points(more),
            3 => self.rings(more),
            4 => self.parts(|swap| swap.number().and_then(|_kind| swap.point(more))),
            5 => self.parts(|swap| swap.number().and_then(|_kind| swap.points(more))),
            6 => self.parts(|swap| swap.number().and_then(|_kind| swap.rings(more))),
            7 => {
                let depth = depth.checked_sub(1)?;
                self.parts(|swap| swap.geometry(depth))
            }
            _ => None,
        }
    }

    /// Copies the parts of a geometry, each of which begins with its byte order.
    fn parts(&mut self, part: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        for _ in 0..self.count()? {
            let (first, rest) = self.rest.split_first()?;
            let outer = self.order;
            self.rest = rest;
            self.out.push(*first);
            self.order = Order::of(*first);
            part(self)?;
            self.order = outer;
        }
        Some(())
    }

    fn rings(&mut self, more: usize) -> Option<()> {
        for _ in 0..self.count()? {
            self.points(more)?;
        }
        Some(())
    }

    fn points(&mut self, more: usize) -> Option<()> {
        for _ in 0..self.count()? {
            self.point(more)?;
        }
        Some(())
    }

    fn point(&mut self, more: usize) -> Option<()> {
        let (x, y) = (self.bytes::<8>()?, self.bytes::<8>()?);
        self.out.extend(y);
        self.out.extend(x);
        for _ in 0..more {
            let ordinate = self.bytes::<8>()?;
            self.out.extend(ordinate);
        }
        Some(())
    }

    /// Reads a count. Java's counts are signed: nothing follows one below 0.
    fn count(&mut self) -> Option<i32> {
        self.number().map(u32::cast_signed)
    }

    fn number(&mut self) -> Option<u32> {
        let bytes = self.bytes()?;
        self.out.extend(bytes);
        Some(self.written.read(bytes))
    }

    /// Reads the next bytes, and returns them in the byte order of the output.
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        let mut bytes = *bytes;
        if self.order != self.written {
            bytes.reverse();
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_cut_off_or_unknown_is_refused() {
        let mut line = vec![1, 2, 0, 0, 0, 1, 0, 0, 0];
        line.extend([0; 16]);
        assert_eq!(swapped(&line).as_deref(), Some(line.as_slice()));
        for length in 0..line.len() {
            assert_eq!(swapped(line.get(..length).unwrap()), None, "{length}");
        }
        // A circular string.
        assert_eq!(swapped(&[1, 8, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(without_srid(&[1, 1, 0, 0, 0x20, 0, 0, 0]), None);
        assert_eq!(with_srid(&[1, 1, 0, 0], 1), None);
    }

    #[test]
    fn collections_end_somewhere() {
        let deep = |levels: usize| [1, 7, 0, 0, 0, 1, 0, 0, 0].repeat(levels);
        let point = [[1, 1, 0, 0, 0].as_slice(), &[0; 16]].concat();
        assert!(swapped(&[deep(DEPTH_MAX), point.clone()].concat()).is_some());
        assert!(swapped(&[deep(DEPTH_MAX + 1), point].concat()).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(mut wkb: Vec<u8>, kind in 0_u8..9) {
            if let Some(byte) = wkb.get_mut(1) {
                *byte = kind;
            }
            let once = swapped(&wkb);
            let (_with, _without) = (with_srid(&wkb, 4326), without_srid(&wkb));
            prop_assert!(once.is_none_or(|once| once.len() <= wkb.len()));
        }

        #[test]
        fn a_reference_system_goes_in_and_out(order in 0_u8..2, rest: Vec<u8>, srid: i32) {
            let plain = [[order, 0, 0, 0, 0].as_slice(), &rest].concat();
            let extended = with_srid(&plain, srid).unwrap();
            prop_assert!(is_extended(&extended) && !is_extended(&plain));
            prop_assert_eq!(without_srid(&extended), Some(plain));
        }
    }
}
