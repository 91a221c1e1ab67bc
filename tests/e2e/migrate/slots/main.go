// An outbox read by go-pq-cdc, for one that is replaced by outboxd: each insert becomes a record, and is acknowledged when Kafka has it.
//
//	slots SLOT PUBLICATION TABLE HOST PORT USER PASSWORD DATABASE BROKERS TOPIC METRICS_PORT
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strconv"
	"time"

	cdc "github.com/Trendyol/go-pq-cdc"
	"github.com/Trendyol/go-pq-cdc/config"
	"github.com/Trendyol/go-pq-cdc/pq/message/format"
	"github.com/Trendyol/go-pq-cdc/pq/publication"
	"github.com/Trendyol/go-pq-cdc/pq/replication"
	"github.com/Trendyol/go-pq-cdc/pq/slot"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"
)

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func id(value any) string {
	switch id := value.(type) {
	case [16]byte:
		return uuid.UUID(id).String()
	default:
		return fmt.Sprint(id)
	}
}

func main() {
	ctx, a := context.Background(), os.Args[1:]
	writer := &kafka.Writer{
		Addr: kafka.TCP(a[8]), Topic: a[9], Balancer: &kafka.Murmur2Balancer{Consistent: true}, RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond,
	}
	cfg := config.Config{
		Host: a[3], Port: number(a[4]), Username: a[5], Password: a[6], Database: a[7],
		Publication: publication.Config{
			CreateIfNotExists: true, Name: a[1],
			Operations: publication.Operations{publication.OperationInsert},
			Tables: publication.Tables{publication.Table{
				Schema: "public", Name: a[2], ReplicaIdentity: publication.ReplicaIdentityDefault,
			}},
		},
		Slot:   slot.Config{CreateIfNotExists: true, Name: a[0], SlotActivityCheckerInterval: 1000},
		Metric: config.MetricConfig{Port: number(a[10])},
		Logger: config.LoggerConfig{LogLevel: slog.LevelInfo},
	}
	listen := func(change *replication.ListenerContext) {
		insert, is := change.Message.(*format.Insert)
		if is {
			row := insert.Decoded
			// go-pq-cdc has decoded it: the text need not be that of the row.
			payload, err := json.Marshal(row["payload"])
			if err != nil {
				log.Fatal(err)
			}
			err = writer.WriteMessages(ctx, kafka.Message{
				Key: []byte(fmt.Sprint(row["aggregateid"])), Value: payload,
				Headers: []kafka.Header{{Key: "id", Value: []byte(id(row["id"]))}, {Key: "other", Value: nil}},
			})
			if err != nil {
				log.Fatal(err)
			}
		}
		if err := change.Ack(); err != nil {
			log.Fatal(err)
		}
	}
	connector, err := cdc.NewConnector(ctx, cfg, listen)
	if err != nil {
		log.Fatal(err)
	}
	// What is acknowledged is told to the server when nothing comes for a while, and by this.
	defer connector.Close()
	connector.Start(ctx)
}
