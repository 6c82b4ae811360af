"""kafka-python, driven by jobs."""

import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

import jobs
from jobs import decoded, encoded


def sent(producer, job):
    """Hands records to the producer, slowly if the job wants that."""
    for record in job["records"]:
        yield producer.send(
            job["topic"],
            partition=record["partition"],
            timestamp_ms=record["timestamp"],
            key=encoded(record["key"]),
            value=encoded(record["value"]),
            headers=[(name, encoded(value)) for name, value in record["headers"]],
        )
        time.sleep(job.get("pace_ms", 0) / 1000)


def produce(job):
    # A slow job is to outlast failures, any other is not to hide them.
    retries = {} if "pace_ms" in job else {"retries": 0}
    producer = KafkaProducer(
        bootstrap_servers=job["bootstrap"],
        compression_type=None if job["codec"] == "none" else job["codec"],
        acks="all" if job["acks"] == "all" else int(job["acks"]),
        enable_idempotence=False,
        linger_ms=100,
        max_request_size=8 << 20,
        **retries,
    )
    try:
        futures = list(sent(producer, job))
        producer.flush(timeout=60)
        return {"offsets": [future.get(timeout=60).offset for future in futures]}
    finally:
        producer.close(timeout=10)


def assigned(job):
    """A consumer of one partition, without a group."""
    limits = {}
    if "fetch_bytes" in job:
        limits = {"fetch_max_bytes": job["fetch_bytes"], "max_partition_fetch_bytes": job["fetch_bytes"]}
    consumer = KafkaConsumer(
        bootstrap_servers=job["bootstrap"], group_id=None, enable_auto_commit=False, auto_offset_reset="none", **limits
    )
    partition = TopicPartition(job["topic"], job["partition"])
    consumer.assign([partition])
    return consumer, partition


def consume(job):
    consumer, partition = assigned(job)
    try:
        if "offset" in job:
            consumer.seek(partition, job["offset"])
        elif "time" in job:
            consumer.seek(partition, consumer.offsets_for_times({partition: job["time"]})[partition].offset)
        elif job["at"] == "beginning":
            consumer.seek_to_beginning(partition)
        else:
            consumer.seek_to_end(partition)
        deadline = time.monotonic() + job.get("patience_ms", 20_000) / 1000
        records = []
        while len(records) < job["count"] and time.monotonic() < deadline:
            for record in consumer.poll(timeout_ms=200).get(partition, []):
                records.append(
                    {
                        "partition": record.partition,
                        "offset": record.offset,
                        "timestamp": record.timestamp,
                        "key": decoded(record.key),
                        "value": decoded(record.value),
                        "headers": [[name, decoded(value)] for name, value in record.headers],
                    }
                )
        return {"records": records[: job["count"]]}
    finally:
        consumer.close()


def offset_for_time(job):
    consumer, partition = assigned(job)
    try:
        found = consumer.offsets_for_times({partition: job["time"]})[partition]
        return {"offset": None if found is None else found.offset}
    finally:
        consumer.close()


def bounds(job):
    consumer, partition = assigned(job)
    try:
        return {
            "beginning": consumer.beginning_offsets([partition])[partition],
            "end": consumer.end_offsets([partition])[partition],
        }
    finally:
        consumer.close()


def create_topic(job):
    admin = KafkaAdminClient(bootstrap_servers=job["bootstrap"])
    try:
        options = {"num_partitions": job["partitions"], "replication_factor": 1, "configs": job["configs"]}
        admin.create_topics({job["topic"]: options})
        return {}
    except KafkaError as error:
        return {"error": str(error), "code": error.errno}
    finally:
        admin.close()


if __name__ == "__main__":
    jobs.serve(sys.modules[__name__])
