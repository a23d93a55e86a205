import type { ImportRule } from './import-rule.ts'

const chassis = 'services/chassis/'
const serviceBase = ['proto/', chassis, 'services/grpc/']
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
  'operator/workloads/',
  'operator/status/',
  'operator/xds/',
]
/** The modules that assemble an operator, besides its parts. */
const environmentParts = [
  ...operatorParts,
  'operator/app.ts',
  'operator/model.ts',
  'operator/console/create-console.ts',
  'operator/controller/',
]

/** The rules for imports of the operator. */
export const operatorImportRules: readonly ImportRule[] = [
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
      'operator/model.ts',
      'operator/broker-queries/',
      'operator/infrastructure/',
      'operator/kinds/',
      'operator/leader/',
      'operator/pods/',
      'operator/ratelimit-queries/',
      'operator/xds/',
    ],
  },
  {
    place: 'operator/model.ts',
    content: 'the model: the types into which all resources are translated',
    mayImport: ['services/broker/routes/route.ts', 'services/payments/domain/merchant/merchant.ts'],
  },
  {
    place: 'operator/kinds/',
    content:
      'one folder for each kind: translation to the model (pure, tested by golden files), claims, encoding for the feed, the counts of its status; `kind-adapter.ts` is the contract, `registry.ts` lists the kinds; `source.ts` is the contract of a source of resources; `published-resources.ts` reconciles all kinds of the feed: gather, translate, choose, publish, status',
    mayImport: [
      'crds/',
      chassis,
      'operator/infrastructure/',
      'operator/pods/',
      'operator/status/',
      'operator/xds/',
    ],
  },
  {
    place: 'operator/kinds/rate-limit-config/',
    content: 'the kind RateLimitConfig',
    mayImport: [
      'crds/',
      chassis,
      'operator/kinds/',
      'operator/xds/',
      'services/ratelimit/config/domain-codec.ts',
      'services/ratelimit/rules/',
    ],
  },
  {
    place: 'operator/kinds/animation-stream-route/',
    content: 'the kind AnimationStreamRoute, and the Secrets that it names',
    mayImport: [
      'crds/',
      'proto/',
      chassis,
      'operator/model.ts',
      'operator/kinds/',
      'operator/pods/',
      'operator/xds/',
    ],
  },
  {
    place: 'operator/kinds/merchant/',
    content:
      'the kind Merchant: stage a key, provision, publish the key, retire others; `provisioner.ts` and `credential-store.ts` are the contracts',
    mayImport: [
      'crds/',
      chassis,
      'operator/model.ts',
      'operator/controller/',
      'operator/kinds/',
      'operator/status/',
      'services/payments/domain/',
    ],
  },
  {
    place: 'operator/workloads/',
    content:
      'one file for each service that the operator runs: its settings, its options of `tollway run`, and its workloads; `service.ts` is the contract, `registry.ts` lists the services, `cluster-names.ts` has the names of their objects',
    mayImport: [
      'crds/cluster-config.ts',
      chassis,
      'operator/model.ts',
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
    mayImport: ['operator/infrastructure/', 'operator/kinds/'],
  },
  {
    place: 'operator/xds/',
    content: 'the feed; `stream.ts` and `snapshot.ts` are pure state machines',
    mayImport: serviceBase,
  },
  {
    place: 'operator/pods/',
    content: 'the streams that processes keep to an operator: sessions, and the loads of brokers',
    mayImport: serviceBase,
  },
  {
    place: 'operator/leader/',
    content:
      '`leader-service.ts`, what an operator passes on to the operator with the Lease, which writes statuses: acknowledgements, loads, sessions and queries',
    mayImport: [
      ...serviceBase,
      'operator/broker-queries/',
      'operator/pods/',
      'operator/ratelimit-queries/',
      'operator/xds/',
    ],
  },
  {
    place: 'operator/ratelimit-queries/',
    content:
      '`pod-sessions.ts`, the contract: what the rate limit processes report, and what the operator asks of them',
    mayImport: [...serviceBase, 'operator/pods/'],
  },
  {
    place: 'operator/api/',
    content:
      'the API of the operator: `shapes.ts`, the JSON; `endpoints.ts`, the calls, from which the OpenAPI document is made; `operator-api.ts`, the listener',
    mayImport: [
      chassis,
      'crds/',
      'operator/broker-queries/',
      'operator/kinds/',
      'operator/leader/',
      'operator/pods/',
      'operator/ratelimit-queries/',
      'operator/status/',
      'services/ratelimit/rules/',
    ],
  },
  {
    place: 'operator/yaml.ts',
    content: 'a document of YAML within limits, for manifests, commands and the console',
    mayImport: [],
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
      'the page of the console, which calls the API in the browser: `pages/`, `parts/`, `tables/`, `plots/`; `calls/` of the API; `data/`, what is shown. Of the API it imports types, and what all its clients share',
    mayImport: [
      'operator/api/manifest-shapes.ts',
      'operator/api/shapes.ts',
      'operator/api/stream-shapes.ts',
      'operator/api/deadlines.ts',
      'operator/api/entries.ts',
      'operator/api/replay-bounds.ts',
      'operator/yaml.ts',
    ],
  },
  {
    place: 'operator/broker-queries/',
    content:
      'the requests of animation streams, from several brokers: by their sessions for the API, by their pages for commands',
    mayImport: [...serviceBase, 'operator/pods/'],
  },
  {
    place: 'operator/infrastructure/',
    content: '`provider.ts`, the contract of what runs the services',
    mayImport: ['operator/model.ts'],
  },
  {
    place: 'operator/certificates/',
    content: "the authentication of the feed's clients: an authority and its rotation. `plan.ts` is pure",
    mayImport: [chassis, 'services/grpc/', 'operator/controller/lease-elector.ts'],
  },
  {
    place: 'operator/controller/',
    content: 'reflector, work queue, lease elector, runner. Independent of kinds and clients',
    mayImport: [chassis],
  },
  {
    place: host,
    content:
      'the operator on one machine: `folder/`, manifests; `processes/`, the services; `terminal/`, what a person sees; and the parts of every environment',
    mayImport: [
      ...environmentParts,
      'operator/yaml.ts',
      'services/payments/settings.ts',
      'services/ratelimit/rules/',
    ],
  },
  {
    place: 'operator/environments/host/processes/',
    content: 'processes on this machine, and a Redis for them',
    mayImport: [chassis, 'operator/model.ts', 'operator/infrastructure/'],
  },
  {
    place: kubernetes,
    content:
      'the operator in a cluster: `status/`, `last-good/`, `tenant-secrets/`, `workloads/`, metrics, and the parts of every environment',
    mayImport: [
      ...environmentParts,
      'operator/certificates/',
      'operator/leader/',
      'services/payments/domain/ids.ts',
    ],
  },
  {
    place: 'operator/environments/kubernetes/api/',
    content: 'the API server: client, events, permissions',
    mayImport: ['crds/resource-kind.ts', chassis, 'operator/model.ts', 'operator/controller/'],
  },
  {
    place: 'operator/environments/kubernetes/infrastructure/',
    content: 'pods for the services: it applies objects, observes pods and repairs changes',
    mayImport: [
      'crds/cluster-config.ts',
      chassis,
      'operator/model.ts',
      'operator/controller/',
      'operator/infrastructure/',
      'operator/workloads/cluster-names.ts',
      'operator/environments/kubernetes/api/',
    ],
  },
  {
    place: 'operator/environments/kubernetes/infrastructure/objects/',
    content: 'the objects of a workload. Pure',
    mayImport: [
      'crds/cluster-config.ts',
      'crds/resource-kind.ts',
      'operator/model.ts',
      'operator/workloads/cluster-names.ts',
      'operator/environments/kubernetes/api/kube-object.ts',
    ],
  },
  {
    place: 'operator/cli/',
    content: 'one file for each command in `commands/`, and what they share',
    mayImport: [
      ...operatorParts,
      'operator/yaml.ts',
      'operator/broker-queries/',
      'proto/',
      host,
      kubernetes,
      'services/ratelimit/rules/',
      'services/ratelimit/config-check.ts',
      'services/ratelimit/servers/decode-decision-json.ts',
      'services/payments/admin/',
    ],
  },
]
