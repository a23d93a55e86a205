import type { ImportRule } from './import-rule.ts'
import { operatorImportRules } from './operator-import-rules.ts'

const chassis = 'services/chassis/'
const serviceBase = ['proto/', chassis, 'services/grpc/']
const withFeed = [...serviceBase, 'services/xds-client/']
/**
 * The rules for imports. `test/tidy.test.ts` enforces them, and the table of folders in ARCHITECTURE.md is
 * generated from them.
 */
export const importRules: readonly ImportRule[] = [
  {
    place: 'crds/',
    content:
      'one file for each kind: the schema, from which the TypeScript types, the CRD manifest and the validation are derived',
    mayImport: ['services/ratelimit/rules/', chassis],
  },
  {
    place: chassis,
    content:
      "the parts that every process needs, one noun in each file: clock, settings, lifecycle, `run-service.ts` for the main program of a service, backoff; `archive/`, files in a tar; `command-line/`, commands with their options and help; `health/`, of the process and of its backend; `log/`; `metrics/`, histograms and Prometheus' text format; `net/`, ports, TLS, pages and Node's `http`; `tracing/`; `webhooks/`, signed posts to URLs of users; `limits/`, rates and concurrency",
    mayImport: [],
  },
  {
    place: 'services/grpc/',
    content:
      '`server.ts`, the contract of a gRPC server, implemented with HTTP/2 over sockets (`server/`, `calls/`, `http2/`); the contract suite also runs on grpc-js, as a reference. `client/` is grpc-js',
    mayImport: [chassis],
  },
  {
    place: 'services/xds-client/',
    content:
      'a client for the feed of any management server (State of the World): stream, ACK and NACK, TLS, the last good response in a file, and its settings',
    mayImport: serviceBase,
  },
  {
    place: 'services/ratelimit/',
    content: 'feeds, servers, settings; `service.ts` assembles the rate limit service',
    mayImport: withFeed,
  },
  {
    place: 'services/ratelimit/rules/',
    content: 'the rate limit language: parse, validate, compile, match, explain. Pure',
    mayImport: ['services/chassis/json.ts', 'services/chassis/once-per-object.ts'],
  },
  {
    place: 'services/ratelimit/counters/',
    content:
      '`counters.ts`, the contract; `memory.ts`; `redis/` with `resp/` and `cluster/`; `memcached/`; `batching/`, which sums and sends the hits of a turn; `connections/` with the circuit breakers',
    mayImport: [chassis],
  },
  {
    place: 'services/ratelimit/limiter/',
    content:
      '`limiter.ts`: match, count, decide, record. `counting.ts`: the local cache, and the failure modes',
    mayImport: [
      chassis,
      'services/ratelimit/counters/',
      'services/ratelimit/rules/',
      'services/ratelimit/stats/',
      'services/ratelimit/spans.ts',
    ],
  },
  {
    place: 'services/ratelimit/limiter/decide.ts',
    content: 'the decision from the counts. Pure',
    mayImport: [],
  },
  {
    place: 'services/ratelimit/stats/',
    content:
      '`stats.ts`, counters and histograms; `mapping/`, names for Prometheus and tags; `sinks/`, which read them',
    mayImport: [chassis, 'services/ratelimit/rules/'],
  },
  {
    place: 'services/broker/',
    content: 'management, streams, servers, webhooks, settings; `service.ts` assembles the broker',
    mayImport: withFeed,
  },
  {
    place: 'services/broker/wire/',
    content: 'messages that are parsed in place. Pure',
    mayImport: ['services/chassis/expected-error.ts'],
  },
  {
    place: 'services/broker/stream-rules.ts',
    content: 'the rules for the messages of one request. Pure',
    mayImport: ['services/broker/wire/', 'services/broker/routes/route.ts'],
  },
  {
    place: 'services/broker/routes/',
    content: 'the route of a request, and the table of active routes',
    mayImport: ['proto/', chassis, 'services/xds-client/', 'services/broker/wire/animation-ids.ts'],
  },
  {
    place: 'services/broker/management/',
    content: 'routes from the management server, and what this broker reports to it over the same connection',
    mayImport: [
      'proto/',
      chassis,
      'services/grpc/client/',
      'services/xds-client/',
      'services/broker/routes/',
    ],
  },
  {
    place: 'services/broker/streams/',
    content: 'producers and consumers of streams: an admitted request, its turn, its delivery',
    mayImport: [
      chassis,
      'services/grpc/',
      'services/broker/stream-log/',
      'services/broker/routes/',
      'services/broker/stream-rules.ts',
      'services/broker/broker-stats.ts',
      'services/broker/wire/',
    ],
  },
  {
    place: 'services/broker/webhooks/',
    content: 'webhooks for the begin and the end of requests',
    mayImport: [
      chassis,
      'services/broker/stream-log/',
      'services/broker/routes/',
      'services/broker/broker-stats.ts',
    ],
  },
  {
    place: 'services/broker/routes/choose-route.ts',
    content: 'the choice among matching routes. Pure',
    mayImport: ['services/chassis/get-or-add.ts', 'services/broker/routes/route.ts'],
  },
  {
    place: 'services/broker/stream-log/',
    content:
      '`stream-log.ts`, the contract: where producers put messages and consumers find them; memory, Redis',
    mayImport: [chassis, 'services/broker/wire/'],
  },
  {
    place: 'services/broker/stream-log/redis/local-request.ts',
    content: "a request of this broker's producers: its messages go to a ring and to Redis",
    mayImport: [
      'services/broker/stream-log/ring.ts',
      'services/broker/stream-log/stream-log.ts',
      'services/broker/stream-log/writer.ts',
      'services/broker/stream-log/redis/append-queue.ts',
      'services/broker/stream-log/redis/connection.ts',
      'services/broker/stream-log/redis/directory-entry.ts',
      'services/broker/stream-log/redis/end-request.ts',
      'services/broker/stream-log/redis/position-reports.ts',
      'services/broker/stream-log/redis/scripts.ts',
      'services/broker/stream-log/redis/setup.ts',
    ],
  },
  {
    place: 'services/broker/stream-log/redis/remote-request.ts',
    content: 'a request of another broker: its stream in Redis is read into a ring',
    mayImport: [
      'services/broker/stream-log/ring.ts',
      'services/broker/stream-log/stream-log.ts',
      'services/broker/stream-log/redis/directory-entry.ts',
      'services/broker/stream-log/redis/keys.ts',
      'services/broker/stream-log/redis/position-reports.ts',
      'services/broker/stream-log/redis/read-loop.ts',
      'services/broker/stream-log/redis/setup.ts',
    ],
  },
  {
    place: 'services/payments/',
    content: 'http, pages, mail, webhooks, settings; `service.ts` assembles the payments service',
    mayImport: serviceBase,
  },
  {
    place: 'services/payments/domain/',
    content:
      'money, transactions and their trail, ledger, lines, fees, exchange, validation of input, and representations. Pure',
    mayImport: ['services/chassis/is-object.ts'],
  },
  {
    place: 'services/payments/processor/',
    content: 'the contract of a card processor, and the built-in one for tests',
    mayImport: ['services/payments/domain/'],
  },
  {
    place: 'services/payments/storage/',
    content:
      '`storage.ts`, the only entry: a transaction, or a read; PostgreSQL and PGlite, migrations, a file for each table, idempotency',
    mayImport: [chassis, 'services/payments/domain/', 'services/payments/processor/'],
  },
  {
    place: 'services/payments/operations/',
    content: 'one file for each operation of the service, for every caller: API, page, command, processor',
    mayImport: [
      chassis,
      'services/payments/domain/',
      'services/payments/processor/',
      'services/payments/storage/',
    ],
  },
  {
    place: 'services/payments/mail/',
    content: 'invitations by SMTP',
    mayImport: [chassis, 'services/payments/domain/', 'services/payments/storage/'],
  },
  ...operatorImportRules,
  {
    place: 'images/',
    content: 'container images as OCI archives, without Docker',
    mayImport: [
      'services/chassis/archive/',
      'services/chassis/node-environment.ts',
      'services/ratelimit/node-options.ts',
      'services/broker/node-options.ts',
      'operator/node-options.ts',
    ],
  },
  {
    place: 'charts/',
    content: 'the chart; `generate.ts` generates the parts that follow from the code',
    mayImport: [
      'services/chassis/json.ts',
      'crds/',
      'operator/environments/kubernetes/api/permissions.ts',
      'operator/environments/kubernetes/workloads/made-pods.ts',
    ],
  },
  {
    place: 'docs/',
    content: 'the pages; `generate.ts` generates those that follow from the code',
    mayImport: [
      'crds/',
      'operator/api/errors.ts',
      'services/chassis/settings.ts',
      'services/ratelimit/settings.ts',
      'services/broker/servers/admin-errors.ts',
      'services/broker/settings.ts',
      'services/payments/',
    ],
  },
  {
    place: 'examples/',
    content: 'resources and programs for users',
    mayImport: ['proto/', 'services/grpc/'],
  },
]
