// franz-go, driven by jobs: one JSON object a line on standard input, one JSON answer a line on standard output.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type job struct {
	Do, Bootstrap, Topic, Codec, Acks, At string
	Partition                             int32
	Partitions                            int32
	Offset, Time                          *int64
	Count                                 int
	Records                               []record
	Configs                               map[string]string
	FetchBytes                            int32 `json:"fetch_bytes"`
	PatienceMs                            int64 `json:"patience_ms"`
	PaceMs                                int64 `json:"pace_ms"`
}

type record struct {
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Timestamp *int64       `json:"timestamp"`
	Key       *string      `json:"key"`
	Value     *string      `json:"value"`
	Headers   [][2]*string `json:"headers"`
}

type answer map[string]any

func main() {
	input := json.NewDecoder(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for input.More() {
		var asked job
		if err := input.Decode(&asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		said, err := perform(asked)
		if err != nil {
			said = answer{"error": err.Error()}
			if refused, ok := err.(*kerr.Error); ok {
				said["code"] = refused.Code
			}
		}
		if err := output.Encode(said); err != nil {
			os.Exit(2)
		}
	}
}

func perform(j job) (answer, error) {
	switch j.Do {
	case "produce":
		return produce(j)
	case "consume":
		return consume(j)
	case "offset_for_time":
		found, err := listed(j, *j.Time)
		if found < 0 {
			return answer{"offset": nil}, err
		}
		return answer{"offset": found}, err
	case "bounds":
		beginning, err := listed(j, -2)
		if err != nil {
			return nil, err
		}
		end, err := listed(j, -1)
		return answer{"beginning": beginning, "end": end}, err
	case "create_topic":
		return createTopic(j)
	}
	return nil, fmt.Errorf("no job is called %q", j.Do)
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

func produce(j job) (answer, error) {
	options := []kgo.Opt{
		seeds(j),
		kgo.AllowAutoTopicCreation(),
		kgo.DisableIdempotentWrite(),
		kgo.RequiredAcks(acks[j.Acks]),
		kgo.ProducerBatchCompression(codecs[j.Codec]),
		kgo.ProducerBatchMaxBytes(8<<20),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(100 * time.Millisecond),
	}
	if j.PaceMs == 0 {
		// A slow job is to outlast failures, any other is not to hide them.
		options = append(options, kgo.RecordRetries(1))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	offsets := make([]int64, len(j.Records))
	errs := make([]error, len(j.Records))
	for i, r := range j.Records {
		out := &kgo.Record{Topic: j.Topic, Partition: r.Partition, Key: bytes(r.Key), Value: bytes(r.Value)}
		if r.Timestamp != nil {
			out.Timestamp = time.UnixMilli(*r.Timestamp)
		}
		for _, h := range r.Headers {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: *h[0], Value: bytes(h[1])})
		}
		client.Produce(context.Background(), out, func(done *kgo.Record, err error) {
			offsets[i], errs[i] = done.Offset, err
		})
		time.Sleep(time.Duration(j.PaceMs) * time.Millisecond)
	}
	wait, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.Flush(wait); err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return answer{"offsets": offsets}, nil
}

func seeds(j job) kgo.Opt {
	return kgo.SeedBrokers(strings.Split(j.Bootstrap, ",")...)
}

func consume(j job) (answer, error) {
	from := kgo.NewOffset().AtStart()
	switch {
	case j.Offset != nil:
		from = kgo.NewOffset().At(*j.Offset)
	case j.Time != nil:
		from = kgo.NewOffset().AfterMilli(*j.Time)
	case j.At == "end":
		from = kgo.NewOffset().AtEnd()
	}
	options := []kgo.Opt{
		seeds(j),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.Topic: {j.Partition: from}}),
		kgo.FetchMaxWait(500 * time.Millisecond),
	}
	if j.FetchBytes > 0 {
		options = append(options, kgo.FetchMaxBytes(j.FetchBytes), kgo.FetchMaxPartitionBytes(j.FetchBytes))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	patience := 20 * time.Second
	if j.PatienceMs > 0 {
		patience = time.Duration(j.PatienceMs) * time.Millisecond
	}
	wait, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	records := []record{}
	for len(records) < j.Count && wait.Err() == nil {
		fetches := client.PollFetches(wait)
		for _, failed := range fetches.Errors() {
			if wait.Err() == nil {
				return nil, failed.Err
			}
		}
		for _, r := range fetches.Records() {
			records = append(records, seen(r))
		}
	}
	return answer{"records": records[:min(len(records), j.Count)]}, nil
}

func seen(r *kgo.Record) record {
	moment := r.Timestamp.UnixMilli()
	headers := [][2]*string{}
	for _, h := range r.Headers {
		headers = append(headers, [2]*string{&h.Key, text(h.Value)})
	}
	return record{r.Partition, r.Offset, &moment, text(r.Key), text(r.Value), headers}
}

// listed asks the partition's leader for the offset at a time; -1 and -2 are the end and the beginning.
func listed(j job, moment int64) (int64, error) {
	client, err := kgo.NewClient(seeds(j))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Partition, partition.Timestamp = j.Partition, moment
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic, topic.Partitions = j.Topic, append(topic.Partitions, partition)
	request := kmsg.NewPtrListOffsetsRequest()
	request.Topics = append(request.Topics, topic)
	said, err := request.RequestWith(context.Background(), client)
	if err != nil {
		return 0, err
	}
	found := said.Topics[0].Partitions[0]
	if found.Offset < 0 && found.Timestamp != -1 {
		return 0, fmt.Errorf("no offset, but timestamp %d", found.Timestamp)
	}
	return found.Offset, kerr.ErrorForCode(found.ErrorCode)
}

func createTopic(j job) (answer, error) {
	client, err := kgo.NewClient(seeds(j))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = j.Topic, j.Partitions, 1
	for name, value := range j.Configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = name, &value
		topic.Configs = append(topic.Configs, config)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis, request.Topics = 30_000, append(request.Topics, topic)
	said, err := request.RequestWith(context.Background(), client)
	if err != nil {
		return nil, err
	}
	return answer{}, kerr.ErrorForCode(said.Topics[0].ErrorCode)
}

func bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

func text(data []byte) *string {
	if data == nil {
		return nil
	}
	made := string(data)
	return &made
}
