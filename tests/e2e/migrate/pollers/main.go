// Polling relays as articles have them, for one that is replaced by outboxd: the SQL of three of them, defects included.
//
//	pollers SHAPE DSN BROKERS TOPIC
package main

import (
	"context"
	"database/sql"
	"log"
	"os"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/segmentio/kafka-go"
)

type event struct {
	ID          string `db:"id"`
	AggregateID string `db:"aggregate_id"`
	EventType   string `db:"event_type"`
	Payload     []byte `db:"payload"`
}

type relay struct {
	db     *sqlx.DB
	writer *kafka.Writer
	topic  string
}

func (r *relay) publish(ctx context.Context, e event, key string) error {
	return r.writer.WriteMessages(ctx, kafka.Message{
		Topic: r.topic, Key: []byte(key), Value: e.Payload,
		Headers: []kafka.Header{{Key: "id", Value: []byte(e.ID)}, {Key: "poller", Value: nil}},
	})
}

// The first: published_at, one topic, the key is the event's type; the first failure rolls the batch back.
func (r *relay) publishedAt(ctx context.Context) error {
	tx, err := r.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var events []event
	if err := tx.SelectContext(ctx, &events, `SELECT id, aggregate_id, event_type, payload FROM outbox_events
		WHERE published_at IS NULL ORDER BY created_at ASC LIMIT 100 FOR UPDATE SKIP LOCKED`); err != nil {
		return err
	}
	ids := make([]string, 0, len(events))
	for _, e := range events {
		if err := r.publish(ctx, e, e.EventType); err != nil {
			return err
		}
		ids = append(ids, e.ID)
	}
	if len(ids) > 0 {
		query, args, err := sqlx.In(`UPDATE outbox_events SET published_at = NOW() WHERE id IN (?)`, ids)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, tx.Rebind(query), args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// The second: processed_at, marked as a batch.
func (r *relay) processedAt(ctx context.Context, mark, unsent string) error {
	tx, err := r.db.BeginTxx(ctx, &sql.TxOptions{})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, `SELECT id, aggregate_id, event_type, payload FROM outbox
		WHERE `+unsent+` ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED`, 100)
	if err != nil {
		return err
	}
	var events []event
	for rows.Next() {
		var e event
		if err := rows.Scan(&e.ID, &e.AggregateID, &e.EventType, &e.Payload); err != nil {
			return err
		}
		events = append(events, e)
	}
	if err := rows.Close(); err != nil {
		return err
	}
	ids := make([]string, 0, len(events))
	for _, e := range events {
		if err := r.publish(ctx, e, e.AggregateID); err != nil {
			return err
		}
		ids = append(ids, e.ID)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE outbox SET `+mark+` WHERE id = ANY($1)`, pq.Array(ids)); err != nil {
		return err
	}
	return tx.Commit()
}

// The third: sent, without a transaction and without an order; each row is marked by itself.
func (r *relay) sent(ctx context.Context) error {
	var events []event
	if err := r.db.SelectContext(ctx, &events,
		`SELECT id, aggregate_id, event_type, payload FROM outbox WHERE sent = false`); err != nil {
		return err
	}
	for _, e := range events {
		if err := r.publish(ctx, e, e.AggregateID); err != nil {
			return err
		}
		if _, err := r.db.ExecContext(ctx, `UPDATE outbox SET sent = true WHERE id = $1`, e.ID); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	ctx := context.Background()
	shape, dsn, brokers, topic := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	writer := &kafka.Writer{
		Addr: kafka.TCP(brokers), Balancer: &kafka.Hash{}, RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond,
	}
	r := &relay{db: sqlx.MustConnect("postgres", dsn), writer: writer, topic: topic}
	for ; ; time.Sleep(50 * time.Millisecond) {
		var err error
		switch shape {
		case "published_at":
			err = r.publishedAt(ctx)
		case "processed_at":
			err = r.processedAt(ctx, "processed_at = NOW()", "processed_at IS NULL")
		case "status":
			err = r.processedAt(ctx, "status = 'PUBLISHED'", "status = 'PENDING'")
		case "status_and_sent_at":
			err = r.processedAt(ctx, "status = 'SENT', sent_at = NOW()", "status = 'NEW'")
		case "sent":
			err = r.sent(ctx)
		default:
			log.Fatalf("no such shape: %s", shape)
		}
		if err != nil {
			log.Print(err)
		}
	}
}
