import Type, { type TSchema } from 'typebox'
import { maxPageItems, maxWhatIfBytes } from '../ratelimit-queries/pod-sessions.ts'
import * as examples from './examples.ts'
import * as manifests from './manifest-shapes.ts'
import { maxDomainLength } from './shape-parts.ts'
import * as shapes from './shapes.ts'
import * as streams from './stream-shapes.ts'

/**
 * The description of one call of the API, for the checks of requests, the OpenAPI document and the reference
 * page.
 */
export interface ApiEndpoint {
  /** The name of the call, which is also the name of the handler. */
  readonly id: string
  readonly method: 'GET' | 'POST'
  /** The path below /api/v1. A part in braces is a parameter of any text, percent-encoded. */
  readonly path: string
  readonly summary: string
  readonly parameters: readonly Parameter[]
  readonly body?: { readonly schema: TSchema; readonly maxBytes: number; readonly example: unknown }
  readonly answer: TSchema
  /**
   * The schema of the data of each event, by the name of the event. Only for endpoints that answer with an
   * event stream.
   */
  readonly events?: Readonly<Record<string, TSchema>>
  readonly example: unknown
  /** The RBAC right that the caller needs in a cluster. Left out if no right is needed. */
  readonly right?: ApiRight
  /** Whether the caller is authenticated although no right is needed. */
  readonly needsCaller?: boolean
}

export interface Parameter {
  readonly name: string
  readonly in: 'query' | 'path'
  readonly required: boolean
  /** Whether the parameter may be repeated. */
  readonly isList?: boolean
  readonly description: string
  readonly schema: TSchema
}

export interface ApiRight {
  readonly verb: 'get' | 'update' | 'list' | 'patch'
  /** A resource of the API group tollway.dev. */
  readonly resource: string
}

const readCounters: ApiRight = { verb: 'get', resource: 'ratelimitconfigs/counters' }
const changeCounters: ApiRight = { verb: 'update', resource: 'ratelimitconfigs/counters' }
const listRules: ApiRight = { verb: 'list', resource: 'ratelimitconfigs' }

/** The default of the parameter `limit`, which is at most `maxPageItems`. */
const pageItems = 100
/**
 * The maximum bytes of a body that changes a counter. One value of the maximum length fits, even if every
 * character is escaped.
 */
const maxChangeBytes = 512 * 1024
const maxTryBytes = 1024 * 1024
const maxApplyBytes = 4 * 1024 * 1024

const query = (name: string, schema: TSchema, description: string, required = false): Parameter => ({
  name,
  in: 'query',
  required,
  description,
  schema,
})

const text = (maxLength: number) => Type.String({ minLength: 1, maxLength })
/**
 * The maximum length of a domain, a rule or the `after` of a page. All three together fit in the address,
 * percent-encoded.
 */
const maxNameLength = 16_384
const page = [
  query('after', text(maxNameLength), 'The `next` of the page before.'),
  query(
    'limit',
    Type.Integer({ minimum: 1, maximum: maxPageItems, default: pageItems }),
    'The most items of the page.',
  ),
]
const inNamespace = query('namespace', text(253), 'Only this namespace. All namespaces if left out.')
const domain = query('domain', text(maxDomainLength), 'The domain.', true)
const domainInPath: Parameter = {
  name: 'domain',
  in: 'path',
  required: true,
  description: 'The domain.',
  schema: text(maxDomainLength),
}
const rule = (required: boolean, description: string) =>
  query('rule', text(maxNameLength), description, required)

const kind = query(
  'kind',
  Type.Enum(['RateLimitConfig', 'AnimationStreamRoute', 'Merchant'], {
    type: 'string',
    default: 'RateLimitConfig',
  }),
  'The kind of the resources.',
)

export const apiEndpoints = [
  {
    id: 'openapi',
    method: 'GET',
    path: '/openapi.json',
    summary: 'Returns this document.',
    parameters: [],
    answer: Type.Object({ openapi: Type.String() }),
    example: { openapi: '3.1.0' },
  },
  {
    id: 'domains',
    method: 'GET',
    path: '/domains',
    summary: 'Lists the domains.',
    parameters: [inNamespace, ...page],
    answer: shapes.domainList,
    example: examples.domainListExample,
    right: listRules,
  },
  {
    id: 'rules',
    method: 'GET',
    path: '/domains/{domain}/rules',
    summary: 'Lists the rules of a domain that count hits, with their totals.',
    parameters: [
      domainInPath,
      query(
        'totals',
        Type.Enum(['pods', 'sum'], { type: 'string', default: 'pods' }),
        '`sum` leaves out the totals of each pod, which are most of the answer.',
      ),
      ...page,
    ],
    answer: shapes.ruleList,
    example: examples.ruleListExample,
    right: listRules,
  },
  {
    id: 'counter',
    method: 'GET',
    path: '/counters',
    summary: 'Reads the counter of one descriptor.',
    parameters: [
      domain,
      {
        ...query(
          'descriptor',
          Type.Array(Type.String(), { minItems: 1, maxItems: 64 }),
          'One entry as KEY=VALUE; repeated for each entry, in order. `=` and `,` in a key are percent-encoded.',
          true,
        ),
        isList: true,
      },
    ],
    answer: shapes.counter,
    example: examples.counterExample,
    right: readCounters,
  },
  {
    id: 'reset',
    method: 'POST',
    path: '/counters/reset',
    summary: 'Sets the counter of one descriptor to 0, or fills its token bucket.',
    parameters: [],
    body: { schema: shapes.resetBody, maxBytes: maxChangeBytes, example: examples.resetBodyExample },
    answer: shapes.counterChange,
    example: examples.counterChangeExample,
    right: changeCounters,
  },
  {
    id: 'raise',
    method: 'POST',
    path: '/counters/raise',
    summary: 'Grants more hits to one descriptor until its window ends, or adds tokens to its token bucket.',
    parameters: [],
    body: { schema: shapes.raiseBody, maxBytes: maxChangeBytes, example: examples.raiseBodyExample },
    answer: shapes.counterChange,
    example: examples.raisedExample,
    right: changeCounters,
  },
  {
    id: 'top',
    method: 'GET',
    path: '/domains/{domain}/top',
    summary: 'Returns the keys of a rule with the most hits. The first call starts the count.',
    parameters: [
      domainInPath,
      rule(true, 'The rule, such as `checkout.user`.'),
      query(
        'by',
        Type.Enum(['rejected', 'hits', 'refused'], { type: 'string', default: 'rejected' }),
        'Which hits are counted. `refused` is the deprecated name of `rejected`.',
      ),
    ],
    answer: shapes.topKeys,
    example: examples.topKeysExample,
    right: readCounters,
  },
  {
    id: 'history',
    method: 'GET',
    path: '/history',
    summary: 'Returns the calls and hits of the last 15 minutes, of a rule, a domain, or all domains.',
    parameters: [
      query('domain', text(maxDomainLength), 'The domain. All domains if left out.'),
      rule(false, 'The rule of the domain. The whole domain if left out.'),
      inNamespace,
    ],
    answer: shapes.history,
    example: examples.historyExample,
    right: listRules,
  },
  {
    id: 'series',
    method: 'GET',
    path: '/series',
    summary: 'Streams the hits of each second of a domain or a rule.',
    parameters: [domain, rule(false, 'The rule. The whole domain if left out.')],
    answer: shapes.seriesPoint,
    events: { point: shapes.seriesPoint },
    example: examples.seriesPointExample,
    right: listRules,
  },
  {
    id: 'tap',
    method: 'GET',
    path: '/tap',
    summary: 'Streams sampled decisions of a domain or a rule.',
    parameters: [domain, rule(false, 'The rule. The whole domain if left out.')],
    answer: shapes.tapBatch,
    events: { decisions: shapes.tapBatch },
    example: examples.tapBatchExample,
    right: readCounters,
  },
  {
    id: 'whatIf',
    method: 'POST',
    path: '/whatif',
    summary: 'Replays the recorded calls of a domain with a proposed RateLimitConfig.',
    parameters: [],
    body: {
      schema: Type.Unsafe<unknown>({
        type: 'object',
        'x-kubernetes-preserve-unknown-fields': true,
        description: 'A RateLimitConfig with its apiVersion, kind, metadata and spec.',
      }),
      maxBytes: maxWhatIfBytes,
      example: examples.whatIfBodyExample,
    },
    answer: shapes.whatIfAnswer,
    example: examples.whatIfAnswerExample,
    right: readCounters,
  },
  {
    id: 'try',
    method: 'POST',
    path: '/try',
    summary: 'Returns which rule each descriptor of a request matches, and why. Counts nothing.',
    parameters: [],
    body: { schema: shapes.tryBody, maxBytes: maxTryBytes, example: examples.tryBodyExample },
    answer: shapes.tryAnswer,
    example: examples.tryAnswerExample,
    right: listRules,
  },
  {
    id: 'apply',
    method: 'POST',
    path: '/apply',
    summary: 'Applies a RateLimitConfig: writes its file on one machine, else by server-side apply.',
    parameters: [],
    body: { schema: manifests.applyBody, maxBytes: maxApplyBytes, example: examples.applyBodyExample },
    answer: manifests.applyAnswer,
    example: examples.applyAnswerExample,
    right: { verb: 'patch', resource: 'ratelimitconfigs' },
  },
  {
    id: 'manifest',
    method: 'GET',
    path: '/manifest',
    summary: 'Returns a resource as its author wrote it, with a version for an apply.',
    parameters: [
      kind,
      query('namespace', Type.String({ minLength: 1, maxLength: 253, default: 'default' }), 'The namespace.'),
      query('name', text(253), 'The name.', true),
    ],
    answer: manifests.manifestAnswer,
    example: examples.manifestAnswerExample,
    // The handler replaces this resource by that of the requested kind: see `resolveRight`.
    right: { verb: 'get', resource: 'ratelimitconfigs' },
  },
  {
    id: 'rights',
    method: 'GET',
    path: '/rights',
    summary: 'Lists what the caller may do.',
    parameters: [inNamespace],
    answer: shapes.rightList,
    example: examples.rightListExample,
    needsCaller: true,
  },
  {
    id: 'version',
    method: 'GET',
    path: '/version',
    summary: 'Returns the version of the operator.',
    parameters: [],
    answer: shapes.versionAnswer,
    example: examples.versionAnswerExample,
    needsCaller: true,
  },
  {
    id: 'resources',
    method: 'GET',
    path: '/resources',
    summary: 'Lists the resources with their conditions, and the pods by the version that they enforce.',
    parameters: [kind, inNamespace, ...page],
    answer: shapes.resourceList,
    example: examples.resourceListExample,
    // The handler replaces this right by one for the kind of the request: see `resolveRight`.
    right: listRules,
  },
  {
    id: 'streams',
    method: 'GET',
    path: '/streams',
    summary: 'Lists the requests of the brokers.',
    parameters: page,
    answer: streams.streamList,
    example: examples.streamListExample,
    right: { verb: 'list', resource: 'animationstreamroutes' },
  },
  {
    id: 'preview',
    method: 'GET',
    path: '/streams/preview',
    summary: 'Returns the last messages of a request, decimated: the range of the audio and blend shapes.',
    parameters: [query('key', text(1024), 'The `key` of the request in `/streams`.', true)],
    answer: streams.streamPreview,
    example: examples.streamPreviewExample,
    right: { verb: 'get', resource: 'animationstreamroutes' },
  },
  {
    id: 'merchants',
    method: 'GET',
    path: '/merchants',
    summary:
      'Lists the merchants with the state of their credentials, their balances, and the last proof of the books.',
    parameters: [inNamespace, ...page],
    answer: shapes.merchantList,
    example: examples.merchantListExample,
    right: { verb: 'list', resource: 'merchants' },
  },
] as const satisfies readonly ApiEndpoint[]

export type EndpointId = (typeof apiEndpoints)[number]['id']
