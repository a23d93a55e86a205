/** A folder or a file of production code, and the folders and files that it may import from. */
export interface ImportRule {
  /** The path from the root; a folder ends with a slash. The longest rule that matches a file decides. */
  readonly place: string
  /** What the place contains: one cell of a Markdown table. */
  readonly content: string
  /** Paths from the root. A place may always import from itself. */
  readonly mayImport: readonly string[]
}

const chassis = 'services/chassis/'
const serviceBase = ['proto/', chassis, 'services/grpc/']
const withFeed = [...serviceBase, 'services/discovery/']
const host = 'operator/environments/host/'
const kubernetes = 'operator/environments/kubernetes/'
/** The parts of an operator that each environment and the commands use. */
const operatorParts = [
  chassis,
  'services/grpc/',
  'crds/',
  'operator/api/',
  'operator/infrastructure/',
  'operator/kinds/',
  'operator/reconcilers/',
  'operator/services/',
  'operator/sources/',
  'operator/status/',
  'operator/streams/',
  'operator/xds/',
]
/** The modules that assemble an operator, besides its parts. */
const environmentParts = [
  ...operatorParts,
  'operator/app.ts',
  'operator/ir.ts',
  'operator/console/',
  'operator/controller/',
]

/**
 * The rules for imports. `test/tidy.test.ts` enforces them, and the table of folders in ARCHITECTURE.md is
 * generated from them.
 */
export const importRules: readonly ImportRule[] = [
  {
    place: 'crds/',
    content:
      'one file for each kind: the schema, from which the TypeScript types, the CRD manifest and the validation are derived',
    mayImport: ['services/ratelimit/rules/'],
  },
  {
    place: chassis,
    content:
      "the parts that every process needs, one noun in each file: clock, settings, lifecycle, `run-service.ts` for the main program of a service, backoff; `archive/`, files in a tar; `log/`; `net/`, ports, TLS and Node's `http`; `tracing/`; `webhooks/`, signed posts to URLs of users; `limits/`, rates by key",
    mayImport: [],
  },
  {
    place: 'services/chassis/http1/',
    content: 'an HTTP/1.1 server on sockets',
    mayImport: [
      'services/chassis/clock.ts',
      'services/chassis/expected-error.ts',
      'services/chassis/net/node-http.ts',
      'services/chassis/request-memory.ts',
    ],
  },
  {
    place: 'services/grpc/',
    content:
      '`server.ts`, the contract of a gRPC server, implemented with HTTP/2 over sockets (`server/`, `calls/`, `http2/`); the contract suite also runs on grpc-js, as a reference. `client/` is grpc-js',
    mayImport: [chassis],
  },
  {
    place: 'services/discovery/',
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
    mayImport: [],
  },
  {
    place: 'services/ratelimit/counters/',
    content:
      '`counters.ts`, the contract; `memory.ts`; `redis/` with `resp/`, `cluster/` and `sentinel/`; `memcached/`; `batching/`, which sums and sends the hits of a turn; `connections/` with the circuit breakers',
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
      'services/ratelimit/tracing/',
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
      '`registry/`, counters and histograms; `mapping/`, names for Prometheus and tags; `sinks/`, which read them',
    mayImport: [chassis, 'services/ratelimit/rules/'],
  },
  {
    place: 'services/broker/',
    content: 'feeds, streams, servers, notify, settings; `service.ts` assembles the broker',
    mayImport: withFeed,
  },
  {
    place: 'services/broker/wire/',
    content: 'messages that are parsed in place. Pure',
    mayImport: ['proto/', 'services/chassis/expected-error.ts'],
  },
  {
    place: 'services/broker/rules/',
    content: 'the rules for the messages of one request. Pure',
    mayImport: ['services/broker/wire/', 'services/broker/routes/route.ts'],
  },
  {
    place: 'services/broker/routes/',
    content: 'the route of a request, and the table of active routes',
    mayImport: ['proto/', chassis, 'services/discovery/', 'services/broker/wire/id-limit.ts'],
  },
  {
    place: 'services/broker/feeds/',
    content: 'routes from the feed or from files',
    mayImport: [...withFeed, 'services/broker/routes/'],
  },
  {
    place: 'services/broker/streams/',
    content: 'producers and consumers of streams: an admitted request, its turn, its delivery',
    mayImport: [
      chassis,
      'services/grpc/',
      'services/broker/log/',
      'services/broker/routes/',
      'services/broker/rules/',
      'services/broker/stats/',
      'services/broker/wire/',
    ],
  },
  {
    place: 'services/broker/notify/',
    content: 'webhooks for the begin and the end of requests',
    mayImport: [chassis, 'services/broker/log/', 'services/broker/routes/', 'services/broker/stats/'],
  },
  {
    place: 'services/broker/routes/choose-route.ts',
    content: 'the choice among matching routes. Pure',
    mayImport: ['services/chassis/get-or-add.ts', 'services/broker/routes/route.ts'],
  },
  {
    place: 'services/broker/log/',
    content:
      '`stream-log.ts`, the contract: where producers put messages and consumers find them; memory, Redis',
    mayImport: [chassis, 'services/broker/wire/'],
  },
  {
    place: 'services/broker/log/redis/reading/',
    content: 'requests of other brokers: streams in Redis are read into rings',
    mayImport: [
      'services/broker/log/refusals.ts',
      'services/broker/log/ring.ts',
      'services/broker/log/stream-log.ts',
      'services/broker/log/redis/connection.ts',
      'services/broker/log/redis/directory-entry.ts',
      'services/broker/log/redis/keys.ts',
      'services/broker/log/redis/setup.ts',
    ],
  },
  {
    place: 'services/broker/log/redis/producing/',
    content: "requests of this broker's producers: their messages go to a ring and to Redis",
    mayImport: [
      'services/broker/log/ring.ts',
      'services/broker/log/stream-log.ts',
      'services/broker/log/writer.ts',
      'services/broker/log/redis/directory-entry.ts',
      'services/broker/log/redis/keys.ts',
      'services/broker/log/redis/scripts.ts',
      'services/broker/log/redis/setup.ts',
      'services/broker/log/redis/unavailable.ts',
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
  {
    place: 'services/payments/webhooks/',
    content: 'the delivery of events to endpoints of merchants',
    mayImport: [chassis, 'services/payments/storage/'],
  },
  {
    place: 'operator/node-options.ts',
    content: 'the options of Node for an operator',
    mayImport: [],
  },
  {
    place: 'operator/app.ts',
    content: 'the ordered parts of any operator, and `Environment`, the contract of the place where it runs',
    mayImport: [
      chassis,
      'operator/ir.ts',
      'operator/counters/',
      'operator/infrastructure/',
      'operator/kinds/',
      'operator/xds/',
    ],
  },
  {
    place: 'operator/ir.ts',
    content: 'the intermediate representation into which all resources are translated',
    mayImport: [],
  },
  {
    place: 'operator/sources/',
    content: 'the contract of a source of resources',
    mayImport: [],
  },
  {
    place: 'operator/kinds/',
    content:
      'one folder for each kind: translation to the ir (pure, tested by golden files), claims, encoding for the feed, the counts of its status; `kind-adapter.ts` is the contract, `registry.ts` lists the kinds',
    mayImport: ['crds/', 'operator/sources/', 'operator/xds/'],
  },
  {
    place: 'operator/kinds/rate-limit-config/',
    content: 'the kind RateLimitConfig',
    mayImport: [
      'crds/',
      'services/chassis/is-object.ts',
      'operator/kinds/',
      'operator/xds/',
      'services/ratelimit/feeds/domain-codec.ts',
      'services/ratelimit/rules/',
    ],
  },
  {
    place: 'operator/kinds/animation-stream-route/',
    content: 'the kind AnimationStreamRoute, and the Secrets that it names',
    mayImport: ['crds/', 'proto/', chassis, 'operator/ir.ts', 'operator/kinds/', 'operator/xds/'],
  },
  {
    place: 'operator/kinds/merchant/',
    content:
      'the kind Merchant: stage a key, provision, publish the key, retire others; `provisioner.ts` and `credential-store.ts` are the contracts',
    mayImport: [
      'crds/',
      chassis,
      'operator/ir.ts',
      'operator/controller/',
      'operator/kinds/',
      'operator/sources/',
      'operator/status/',
      'services/payments/domain/',
    ],
  },
  {
    place: 'operator/services/',
    content:
      'one folder for each service that the operator runs: its settings, its options of `tollway run`, and its workloads; `service.ts` is the contract, `registry.ts` lists the services, `cluster-names.ts` has the names of their objects',
    mayImport: [
      'crds/cluster-config.ts',
      chassis,
      'operator/ir.ts',
      'operator/kinds/merchant/',
      'services/ratelimit/settings.ts',
      'services/broker/settings.ts',
      'services/payments/settings.ts',
      'services/ratelimit/node-options.ts',
      'services/broker/node-options.ts',
    ],
  },
  {
    place: 'operator/status/',
    content: 'conditions, the status of a resource, and the report of an operator',
    mayImport: ['operator/infrastructure/', 'operator/kinds/', 'operator/sources/'],
  },
  {
    place: 'operator/xds/',
    content:
      'the feed; `stream.ts` and `snapshot.ts` are pure state machines. `peers/` reports acknowledgements, and `loads/` the load of brokers, to the operator that writes statuses',
    mayImport: serviceBase,
  },
  {
    place: 'operator/counters/',
    content:
      '`pod-sessions.ts`, the contract: what the rate limit processes report, and what the operator asks of them; `leader/` passes both on to the operator with the Lease',
    mayImport: [...serviceBase, 'operator/xds/'],
  },
  {
    place: 'operator/api/',
    content:
      'the API of the operator: `shapes.ts`, the JSON; `endpoints.ts`, the calls, from which the OpenAPI document is made; `create-api.ts`, the listener',
    mayImport: [
      chassis,
      'crds/',
      'operator/counters/',
      'operator/kinds/',
      'operator/status/',
      'operator/streams/',
      'operator/xds/',
      'services/ratelimit/rules/',
    ],
  },
  {
    place: 'operator/console/',
    content:
      'the console: its files with their headers, from the sources of a working tree or the bundle of an image',
    mayImport: [],
  },
  {
    place: 'operator/console/browser/',
    content:
      'the page of the console, which calls the API in the browser: `pages/`, `parts/`, `tables/`, `plots/`; `calls/` of the API; `data/`, what is shown. Of the API it imports types only',
    mayImport: ['operator/api/manifest-shapes.ts', 'operator/api/shapes.ts', 'operator/api/stream-shapes.ts'],
  },
  {
    place: 'operator/streams/',
    content: 'the requests of animation streams, from the pages of several brokers',
    mayImport: [chassis],
  },
  {
    place: 'operator/infrastructure/',
    content: '`provider.ts`, the contract of what runs the services',
    mayImport: ['operator/ir.ts'],
  },
  {
    place: 'operator/certificates/',
    content: "the authentication of the feed's clients: an authority and its rotation. `plan.ts` is pure",
    mayImport: [chassis, 'services/grpc/'],
  },
  {
    place: 'operator/controller/',
    content: 'reflector, work queue, lease elector, runner. Independent of kinds and clients',
    mayImport: [chassis],
  },
  {
    place: 'operator/reconcilers/',
    content: 'one for all kinds of the feed: gather, translate, claim, publish, status',
    mayImport: [
      chassis,
      'crds/resource-kind.ts',
      'operator/infrastructure/',
      'operator/kinds/',
      'operator/sources/',
      'operator/status/',
      'operator/xds/',
    ],
  },
  {
    place: host,
    content:
      'the operator on one machine: `folder/`, manifests; `processes/`, the services; `terminal/`, what a person sees; and the parts of every environment',
    mayImport: [...environmentParts, 'services/payments/settings.ts', 'services/ratelimit/rules/'],
  },
  {
    place: 'operator/environments/host/processes/',
    content: 'processes on this machine, and a Redis for them',
    mayImport: [chassis, 'operator/ir.ts', 'operator/infrastructure/'],
  },
  {
    place: kubernetes,
    content:
      'the operator in a cluster: `status/`, `last-good/`, `tenant-secrets/`, `workloads/`, metrics, and the parts of every environment',
    mayImport: [
      ...environmentParts,
      'operator/certificates/',
      'operator/counters/',
      'services/payments/domain/ids.ts',
    ],
  },
  {
    place: 'operator/environments/kubernetes/api/',
    content: 'the API server: client, events, permissions',
    mayImport: [chassis, 'operator/ir.ts', 'operator/controller/'],
  },
  {
    place: 'operator/environments/kubernetes/infrastructure/',
    content: 'pods for the services: it applies objects, observes pods and repairs changes',
    mayImport: [
      'crds/cluster-config.ts',
      chassis,
      'operator/ir.ts',
      'operator/controller/',
      'operator/infrastructure/',
      'operator/services/cluster-names.ts',
      'operator/environments/kubernetes/api/',
    ],
  },
  {
    place: 'operator/environments/kubernetes/infrastructure/objects/',
    content: 'the objects of a workload. Pure',
    mayImport: [
      'crds/cluster-config.ts',
      'operator/ir.ts',
      'operator/services/cluster-names.ts',
      'operator/environments/kubernetes/api/kube-object.ts',
    ],
  },
  {
    place: 'operator/cli/',
    content: 'one file for each command in `commands/`, and what they share',
    mayImport: [
      ...operatorParts,
      'proto/',
      host,
      kubernetes,
      'services/ratelimit/rules/',
      'services/ratelimit/config-check.ts',
      'services/ratelimit/servers/decode-decision-json.ts',
      'services/payments/admin/',
    ],
  },
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
    mayImport: ['crds/', 'operator/ir.ts', 'operator/environments/kubernetes/api/permissions.ts'],
  },
  {
    place: 'docs/',
    content: 'the pages; `generate.ts` generates those that follow from the code',
    mayImport: [
      'crds/',
      'services/chassis/settings.ts',
      'services/ratelimit/settings.ts',
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
