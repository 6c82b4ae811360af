"""confluent-kafka, which is librdkafka, driven by jobs."""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

import jobs
from jobs import decoded, encoded


def produce(job):
    # A slow job is to outlast failures, any other is not to hide them.
    retries = {} if "pace_ms" in job else {"retries": 0}
    producer = Producer(
        {
            "bootstrap.servers": job["bootstrap"],
            "compression.type": job["codec"],
            "acks": job["acks"],
            "enable.idempotence": False,
            "linger.ms": 100,
            "message.max.bytes": 8 << 20,
            **retries,
        }
    )
    delivered = {}

    def delivery(number):
        def reported(error, message):
            # Without acknowledgements there is no offset.
            delivered[number] = error or (-1 if message.offset() is None else message.offset())

        return reported

    for number, record in enumerate(job["records"]):
        moment = {} if record["timestamp"] is None else {"timestamp": record["timestamp"]}
        producer.produce(
            job["topic"],
            partition=record["partition"],
            key=encoded(record["key"]),
            value=encoded(record["value"]),
            headers=[(name, encoded(value)) for name, value in record["headers"]],
            on_delivery=delivery(number),
            **moment,
        )
        if "pace_ms" in job:
            producer.poll(job["pace_ms"] / 1000)
    producer.flush(60)
    offsets = [delivered.get(number, "no report") for number in range(len(job["records"]))]
    failed = [str(offset) for offset in offsets if not isinstance(offset, int)]
    return {"error": failed[0]} if failed else {"offsets": offsets}


def consumer_of(job):
    limits = {}
    if "fetch_bytes" in job:
        limits = {"fetch.max.bytes": job["fetch_bytes"], "max.partition.fetch.bytes": job["fetch_bytes"]}
        limits["message.max.bytes"] = job["fetch_bytes"]
    return Consumer(
        {
            "bootstrap.servers": job["bootstrap"],
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **limits,
        }
    )


def consume(job):
    consumer = consumer_of(job)
    try:
        partition = TopicPartition(job["topic"], job["partition"])
        if "offset" in job:
            partition.offset = job["offset"]
        elif "time" in job:
            partition.offset = job["time"]
            partition = consumer.offsets_for_times([partition], timeout=20)[0]
        else:
            partition.offset = OFFSET_BEGINNING if job["at"] == "beginning" else OFFSET_END
        consumer.assign([partition])
        deadline = time.monotonic() + job.get("patience_ms", 20_000) / 1000
        records = []
        while len(records) < job["count"] and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            records.append(
                {
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "timestamp": message.timestamp()[1],
                    "key": decoded(message.key()),
                    "value": decoded(message.value()),
                    "headers": [[name, decoded(value)] for name, value in message.headers() or []],
                }
            )
        return {"records": records}
    finally:
        consumer.close()


def offset_for_time(job):
    consumer = consumer_of(job)
    try:
        asked = TopicPartition(job["topic"], job["partition"], job["time"])
        found = consumer.offsets_for_times([asked], timeout=20)[0]
        if found.error:
            raise KafkaException(found.error)
        return {"offset": None if found.offset == OFFSET_END else found.offset}
    finally:
        consumer.close()


def bounds(job):
    consumer = consumer_of(job)
    try:
        partition = TopicPartition(job["topic"], job["partition"])
        beginning, end = consumer.get_watermark_offsets(partition, timeout=20, cached=False)
        return {"beginning": beginning, "end": end}
    finally:
        consumer.close()


def create_topic(job):
    admin = AdminClient({"bootstrap.servers": job["bootstrap"]})
    topic = NewTopic(job["topic"], job["partitions"], 1, config=job["configs"])
    try:
        admin.create_topics([topic])[job["topic"]].result(timeout=30)
        return {}
    except KafkaException as failure:
        error = failure.args[0]
        return {"error": error.str(), "code": error.code()}


def configs_round_trip(job):
    admin = AdminClient({"bootstrap.servers": job["bootstrap"]})

    def described():
        topic = ConfigResource(ConfigResource.Type.TOPIC, job["topic"])
        entries = admin.describe_configs([topic])[topic].result(timeout=30)
        return {name: entry.value for name, entry in entries.items() if not entry.is_read_only}

    def write(configs):
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
        ]
        topic = ConfigResource(ConfigResource.Type.TOPIC, job["topic"], incremental_configs=entries)
        admin.incremental_alter_configs([topic])[topic].result(timeout=30)

    before = described()
    changed = []
    for configs in (before, dict(list(before.items())[:1])):
        write(configs)
        after = described()
        changed += [name for name in before | after if before.get(name) != after.get(name)]
    return {"written": len(before), "changed": changed}


if __name__ == "__main__":
    jobs.serve(sys.modules[__name__])
