// Called as: consumer POSTGRES KAFKA TOPIC CONSUMER DEAD_LETTER_TOPIC. It applies each event once and in order, by docs/inbox-protocol.md.
// It needs the tables of sql/inbox.sql in the database. The function handle is the service's own; the protocol is in inbox.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// handle makes the changes of an event, in the transaction that stores its id.
func handle(ctx context.Context, tx pgx.Tx, id string, value []byte) error {
	var event struct {
		CustomerID  int64 `json:"customer_id"`
		Amount, Seq int64
		Fail        string
	}
	if err := json.Unmarshal(value, &event); err != nil {
		return err
	}
	if event.Fail == "always" {
		return errors.New("the event says that it always fails")
	}
	const apply = "WITH paid AS (UPDATE customers SET lifetime_value = lifetime_value + $1 WHERE id = $2) " +
		"INSERT INTO applied (event_id, customer_id, seq) VALUES ($3, $2, $4)"
	_, err := tx.Exec(ctx, apply, event.Amount, event.CustomerID, id, event.Seq)
	return err
}

// isTransient reports whether the same may succeed later, at this server or at the one that it fails over to.
var isTransient = regexp.MustCompile("^(25006|53|55|57|58)").MatchString

// run applies events until the program stops or a server fails.
func run(stop context.Context) error {
	ctx, fail := context.WithCancelCause(stop)
	defer fail(nil)
	work := context.WithoutCancel(ctx) // A transaction that has begun is finished when the program stops.
	postgres, err := pgx.Connect(ctx, os.Args[1])
	if err != nil {
		return err
	}
	defer postgres.Close(work)
	in := &inbox{topic: os.Args[3], consumer: os.Args[4], deadLetters: os.Args[5], postgres: postgres, held: map[int32][2]any{}, fail: fail}
	in.kafka, err = kgo.NewClient(kgo.SeedBrokers(os.Args[2]), kgo.ConsumerGroup(in.consumer), kgo.ConsumeTopics(in.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.AutoCommitMarks(),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(2*time.Second), kgo.AdjustFetchOffsetsFn(in.take),
		// The group revokes all partitions before it assigns any, and never between PollRecords and AllowRebalance: take and end never meet.
		kgo.Balancers(kgo.RangeBalancer()), kgo.BlockRebalanceOnPoll())
	if err != nil {
		return err
	}
	defer in.kafka.CloseAllowingRebalance()
	for ctx.Err() == nil {
		for _, r := range in.kafka.PollRecords(ctx, 1).Records() {
			if err := in.end(work, r); err != nil {
				return err
			}
			in.kafka.MarkCommitRecords(r) // Committed later. The database has the offset already.
		}
		in.kafka.AllowRebalance()
	}
	return context.Cause(ctx)
}

func main() {
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	for stop.Err() == nil {
		log.Print("again in 0.5 s, unless the program ends: ", run(stop))
		time.Sleep(500 * time.Millisecond)
	}
}
