// Called as: consumer POSTGRES KAFKA TOPIC CONSUMER DEAD_LETTER_TOPIC. It applies each event once and in order, by docs/inbox-protocol.md.
// It needs the tables of sql/inbox.sql in the database. The function handle is the service's own; the protocol itself is in inbox.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

// handle does whatever the event changes, in the transaction that remembers it.
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
	const update = "UPDATE customers SET lifetime_value = lifetime_value + $1 WHERE id = $2"
	if _, err := tx.Exec(ctx, update, event.Amount, event.CustomerID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO applied (event_id, customer_id, seq) VALUES ($1, $2, $3)", id, event.CustomerID, event.Seq)
	return err
}

func main() {
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	in := &inbox{topic: os.Args[3], consumer: os.Args[4], deadLetters: os.Args[5]}
	var err error
	if in.postgres, err = pgxpool.New(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
	in.kafka, err = kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[2], ",")...), kgo.ConsumerGroup(in.consumer), kgo.ConsumeTopics(in.topic),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(2*time.Second),
		kgo.Balancers(kgo.RangeBalancer()), // Clients in all languages have it, so that they can be in one group.
		kgo.BlockRebalanceOnPoll(), kgo.AdjustFetchOffsetsFn(in.take), kgo.OnPartitionsRevoked(in.forget), kgo.OnPartitionsLost(in.forget),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	)
	if err != nil {
		log.Fatal(err)
	}
	for stop.Err() == nil {
		// No partition is revoked between the poll and AllowRebalance. Few records, so that nobody in the group waits long for it.
		fetches, ended := in.kafka.PollRecords(stop, 10), []*kgo.Record{}
		if err := fetches.Err(); err != nil && stop.Err() == nil {
			log.Print(err)
		}
		for _, r := range fetches.Records() {
			if in.end(stop, r) {
				ended = append(ended, r)
			}
		}
		// Kafka is told after the database. What it misses is known in the database.
		if err := in.kafka.CommitRecords(context.Background(), ended...); err != nil {
			log.Print("Kafka has not taken the offsets: ", err)
		}
		in.kafka.AllowRebalance()
	}
	in.kafka.CloseAllowingRebalance()
}
