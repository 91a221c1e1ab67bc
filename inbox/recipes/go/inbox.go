package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

// inbox is the protocol of docs/inbox-protocol.md for the partitions of one topic.
type inbox struct {
	topic, consumer, deadLetters string
	postgres                     *pgxpool.Pool
	kafka                        *kgo.Client
	held                         sync.Map // The tenure of each partition. kgo takes partitions while records of others are handled.
}

type tenure struct{ partitionID, epoch int64 }

var errNotHeld = errors.New("the partition is not held any more")

// take is called before anything of the partitions is fetched. Who takes a partition knows its epoch. The transactions of whoever had it
// before are over, and where it has ended is known.
func (in *inbox) take(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for partition := range offsets[in.topic] {
		var t tenure
		var next *int64
		err := in.transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			row := tx.QueryRow(ctx, "SELECT * FROM inbox_take($1, $2, $3, $4)", in.consumer, in.topic, partition, in.consumer)
			return row.Scan(&t.partitionID, &t.epoch, &next)
		})
		if err != nil {
			return nil, err // kgo logs it, and joins the group again.
		}
		in.held.Store(partition, t)
		if next != nil {
			offsets[in.topic][partition] = kgo.NewOffset().At(*next)
		}
	}
	return offsets, nil
}

// forget is called when partitions are revoked or lost.
func (in *inbox) forget(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	for _, partition := range gone[in.topic] {
		in.held.Delete(partition)
	}
}

// end ends a record, as a dead letter if need be. It tells whether it has: not when the partition is not held any more, or ctx is over.
func (in *inbox) end(ctx context.Context, r *kgo.Record) bool {
	t, isHeld := in.held.Load(r.Partition)
	for isDead := false; isHeld; isDead = true {
		err := in.transaction(ctx, func(ctx context.Context, tx pgx.Tx) error { return in.apply(ctx, tx, t.(tenure), r, isDead) })
		switch {
		case err == nil:
			return true
		case errors.Is(err, errNotHeld):
			in.held.Delete(r.Partition) // The records behind this one must not be handled either.
			return false
		case isDead:
			log.Fatal("the record cannot be ended: ", err)
		}
		in.giveUp(r, err)
	}
	return false
}

// apply is one transaction: is the partition still held, is the event new, what it changes, and up to where the partition has ended.
func (in *inbox) apply(ctx context.Context, tx pgx.Tx, t tenure, r *kgo.Record, isDead bool) error {
	var isHeld, isNew bool
	if err := tx.QueryRow(ctx, "SELECT inbox_enter($1, $2)", t.partitionID, t.epoch).Scan(&isHeld); err != nil {
		return err
	}
	if !isHeld {
		return errNotHeld
	}
	var id []byte // Without one inbox_claim is an error.
	for _, header := range r.Headers {
		if header.Key == "id" {
			id = header.Value
		}
	}
	if !isDead {
		if err := tx.QueryRow(ctx, "SELECT inbox_claim($1, $2, $3)", in.consumer, r.Topic, id).Scan(&isNew); err != nil {
			return err
		}
	}
	if isNew {
		if err := handle(ctx, tx, string(id), r.Value); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "SELECT inbox_ended($1, $2, $3)", t.partitionID, t.epoch, r.Offset+1)
	return err
}

// transaction runs work in a transaction: again after 0.5 s when there is no connection or it is lost, and when PostgreSQL wants it so
// (deadlocks, no resources). One that has begun is finished even when ctx ends.
func (in *inbox) transaction(ctx context.Context, work func(context.Context, pgx.Tx) error) error {
	for ; ctx.Err() == nil; time.Sleep(500 * time.Millisecond) {
		isLost, ctx := true, context.WithoutCancel(ctx)
		err := in.postgres.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return work(ctx, tx) })
			isLost = err != nil && conn.Conn().IsClosed()
			return err
		})
		refusal, isRefused := errors.AsType[*pgconn.PgError](err)
		if !isLost && !(isRefused && strings.Contains("40 53 55 57 58", refusal.Code[:2])) {
			return err
		}
		log.Print("again in 0.5 s: ", err)
	}
	return errNotHeld
}

// giveUp returns when the dead letter is in Kafka. After a crash between that and the end of the record it is written twice.
func (in *inbox) giveUp(r *kgo.Record, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	headers := slices.Concat(r.Headers, []kgo.RecordHeader{
		{Key: "outboxd.errors.topic", Value: []byte(r.Topic)},
		{Key: "outboxd.errors.message", Value: fmt.Appendf(nil, "%.1000s", cause)},
	})
	letter := &kgo.Record{Topic: in.deadLetters, Key: r.Key, Value: r.Value, Headers: headers}
	if err := in.kafka.ProduceSync(ctx, letter).FirstErr(); err != nil {
		log.Fatal("Kafka has not accepted a dead letter: ", err)
	}
}
