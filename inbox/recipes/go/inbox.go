package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kgo"
)

// inbox is the protocol of docs/inbox-protocol.md. It lives as long as its connection to PostgreSQL: a failover may lose transactions.
type inbox struct {
	topic, consumer, deadLetters string
	postgres                     *pgx.Conn
	kafka                        *kgo.Client
	held                         map[int32][2]any // The partition_id and epoch of each partition.
	fail                         context.CancelCauseFunc
}

var errNotHeld = errors.New("the partition is not held any more")

// take is called when the group has assigned partitions, before their first record is fetched. It ends the transactions of the last holder.
func (in *inbox) take(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for partition, committed := range offsets[in.topic] {
		var id, epoch, next int64 // The group's offset counts if none is stored, or the topic was created again.
		const take = "SELECT partition_id, epoch, least(next_offset, $4) FROM inbox_take($1, $2, $3, $1)"
		values := []any{in.consumer, in.topic, partition, committed.EpochOffset().Offset}
		if err := in.postgres.QueryRow(ctx, take, values...).Scan(&id, &epoch, &next); err != nil {
			in.fail(err)
			return nil, err
		}
		in.held[partition] = [2]any{id, epoch}
		offsets[in.topic][partition] = kgo.NewOffset().At(next)
	}
	return offsets, nil
}

// end applies a record, or writes a dead letter (again after a crash) and ends it without. An error is that of a server: the record has not ended.
func (in *inbox) end(ctx context.Context, r *kgo.Record) error {
	err, refusal := in.apply(ctx, r, false), (*pgconn.PgError)(nil)
	for errors.As(err, &refusal) && refusal.Code[:2] == "40" { // A deadlock, or a serialization failure.
		err = in.apply(ctx, r, false)
	}
	if err == nil || err == errNotHeld || in.postgres.IsClosed() || refusal != nil && isTransient(refusal.Code) {
		return err
	}
	headers := append(slices.Clone(r.Headers), kgo.RecordHeader{Key: "outboxd.errors.topic", Value: []byte(r.Topic)},
		kgo.RecordHeader{Key: "outboxd.errors.message", Value: fmt.Appendf(nil, "%.1000s", err)})
	letter := &kgo.Record{Topic: in.deadLetters, Key: r.Key, Value: r.Value, Headers: headers}
	if err := in.kafka.ProduceSync(ctx, letter).FirstErr(); err != nil {
		return err
	}
	return in.apply(ctx, r, true)
}

// apply is one transaction: it checks that the partition is held and the event new, makes its changes, and stores the offset behind it.
func (in *inbox) apply(ctx context.Context, r *kgo.Record, isDead bool) error {
	return pgx.BeginFunc(ctx, in.postgres, func(tx pgx.Tx) error {
		headers := map[string][]byte{} // Without an id, inbox_claim is an error.
		for _, header := range r.Headers {
			headers[header.Key] = header.Value
		}
		held, isNew := in.held[r.Partition], new(bool)
		const enter = "SELECT CASE WHEN inbox_enter($1, $2) THEN CASE WHEN $3 THEN false ELSE inbox_claim($4, $5, $6) END END"
		err := tx.QueryRow(ctx, enter, held[0], held[1], isDead, in.consumer, r.Topic, headers["id"]).Scan(&isNew)
		if err == nil && isNew == nil {
			err = errNotHeld
		}
		if err == nil && *isNew {
			err = handle(ctx, tx, string(headers["id"]), r.Value)
		}
		if err == nil {
			_, err = tx.Exec(ctx, "SELECT inbox_ended($1, $2, $3)", held[0], held[1], r.Offset+1)
		}
		return err
	})
}
