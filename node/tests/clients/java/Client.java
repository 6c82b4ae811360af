import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own client, driven by jobs: one JSON object a line on standard input, one JSON answer a line on standard output. */
public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                perform(JSON.readTree(line), answer);
            } catch (Exception failure) {
                Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
                answer.put("error", cause.toString());
                if (cause instanceof ApiException) {
                    answer.put("code", Errors.forException(cause).code());
                }
            }
            System.out.write((JSON.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
            System.out.flush();
        }
    }

    private static void perform(JsonNode job, ObjectNode answer) throws Exception {
        switch (job.get("do").asText()) {
            case "produce" -> produce(job, answer);
            case "consume" -> consume(job, answer);
            case "offset_for_time" -> offsetForTime(job, answer);
            case "bounds" -> bounds(job, answer);
            case "create_topic" -> createTopic(job);
            case "configs_round_trip" -> configsRoundTrip(job, answer);
            default -> throw new IllegalArgumentException("no such job: " + job);
        }
    }

    private static void produce(JsonNode job, ObjectNode answer) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", job.get("bootstrap").asText());
        settings.put("compression.type", job.get("codec").asText());
        settings.put("acks", job.get("acks").asText());
        settings.put("enable.idempotence", false);
        if (!job.has("pace_ms")) {
            settings.put("retries", 0);
        }
        settings.put("linger.ms", 100);
        settings.put("max.request.size", 8 << 20);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode record : job.get("records")) {
                Long timestamp = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
                var out = new ProducerRecord<>(job.get("topic").asText(), record.get("partition").asInt(), timestamp,
                    bytes(record.get("key")), bytes(record.get("value")));
                for (JsonNode header : record.get("headers")) {
                    out.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                sent.add(producer.send(out));
                if (job.has("pace_ms")) {
                    Thread.sleep(job.get("pace_ms").asLong());
                }
            }
            producer.flush();
        }
        ArrayNode offsets = answer.putArray("offsets");
        for (Future<RecordMetadata> one : sent) {
            offsets.add(one.get().offset());
        }
    }

    private static void consume(JsonNode job, ObjectNode answer) {
        TopicPartition partition = partition(job);
        int count = job.get("count").asInt();
        ArrayNode records = answer.putArray("records");
        try (var consumer = consumer(job)) {
            consumer.assign(List.of(partition));
            if (job.has("offset")) {
                consumer.seek(partition, job.get("offset").asLong());
            } else if (job.has("time")) {
                consumer.seek(partition, found(consumer, job).orElseThrow().offset());
            } else if (job.get("at").asText().equals("beginning")) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seekToEnd(List.of(partition));
            }
            long patience = job.has("patience_ms") ? job.get("patience_ms").asLong() : 20_000;
            long deadline = System.nanoTime() + patience * 1_000_000;
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (records.size() < count) {
                        put(records.addObject(), record);
                    }
                }
            }
        }
    }

    private static void put(ObjectNode out, ConsumerRecord<byte[], byte[]> record) {
        out.put("partition", record.partition());
        out.put("offset", record.offset());
        out.put("timestamp", record.timestamp());
        out.put("key", text(record.key()));
        out.put("value", text(record.value()));
        ArrayNode headers = out.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
    }

    private static void offsetForTime(JsonNode job, ObjectNode answer) {
        try (var consumer = consumer(job)) {
            Optional<OffsetAndTimestamp> found = found(consumer, job);
            answer.put("offset", found.map(OffsetAndTimestamp::offset).orElse(null));
        }
    }

    private static Optional<OffsetAndTimestamp> found(KafkaConsumer<byte[], byte[]> consumer, JsonNode job) {
        return Optional.ofNullable(consumer.offsetsForTimes(Map.of(partition(job), job.get("time").asLong())).get(partition(job)));
    }

    private static void bounds(JsonNode job, ObjectNode answer) {
        List<TopicPartition> partition = List.of(partition(job));
        try (var consumer = consumer(job)) {
            answer.put("beginning", consumer.beginningOffsets(partition).get(partition.get(0)));
            answer.put("end", consumer.endOffsets(partition).get(partition.get(0)));
        }
    }

    private static void createTopic(JsonNode job) throws Exception {
        Map<String, String> configs = new HashMap<>();
        job.get("configs").properties().forEach(config -> configs.put(config.getKey(), config.getValue().asText()));
        NewTopic topic = new NewTopic(job.get("topic").asText(), job.get("partitions").asInt(), (short) 1).configs(configs);
        try (Admin admin = admin(job)) {
            admin.createTopics(List.of(topic)).all().get();
        }
    }

    private static void configsRoundTrip(JsonNode job, ObjectNode answer) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, job.get("topic").asText());
        try (Admin admin = admin(job)) {
            Map<String, String> before = configs(admin, topic);
            List<AlterConfigOp> same = new ArrayList<>();
            before.forEach((name, value) -> same.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
            ArrayNode changed = answer.putArray("changed");
            for (List<AlterConfigOp> operations : List.of(same, same.subList(0, 1))) {
                admin.incrementalAlterConfigs(Map.of(topic, operations)).all().get();
                configs(admin, topic).forEach((name, value) -> {
                    if (!value.equals(before.get(name))) {
                        changed.add(name);
                    }
                });
            }
            answer.put("written", before.size());
        }
    }

    private static Map<String, String> configs(Admin admin, ConfigResource resource) throws Exception {
        Map<String, String> values = new HashMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            if (!entry.isReadOnly()) {
                values.put(entry.name(), entry.value());
            }
        }
        return values;
    }

    private static Admin admin(JsonNode job) {
        return Admin.create(Map.of("bootstrap.servers", (Object) job.get("bootstrap").asText()));
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode job) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", job.get("bootstrap").asText());
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "none");
        if (job.has("fetch_bytes")) {
            settings.put("fetch.max.bytes", job.get("fetch_bytes").asInt());
            settings.put("max.partition.fetch.bytes", job.get("fetch_bytes").asInt());
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static TopicPartition partition(JsonNode job) {
        return new TopicPartition(job.get("topic").asText(), job.get("partition").asInt());
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}
