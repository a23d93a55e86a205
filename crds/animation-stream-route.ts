import Type, { type Static } from 'typebox'
import type { DeepReadonly } from './deep-readonly.ts'
import { describeFound } from './describe.ts'
import type { FieldRule } from './field-rule.ts'
import { withRules } from './field-rule.ts'
import { feedColumns } from './generation/printer-columns.ts'
import type { Resource, ResourceKind } from './resource-kind.ts'
import { commonStatus, feedStatus } from './resource-status.ts'
import { type Fields, isFields, notRequired } from './schema.ts'

/** The limits of an AnimationStreamRoute. Lengths are in characters. */
export const animationStreamRouteLimits = {
  /** The limit of brokers: a longer id matches no request. */
  maxIdLength: 100,
  maxAudioFormats: 16,
  maxMessageBytes: 64 * 1024 * 1024,
  maxBufferBytes: 1024 * 1024 * 1024,
  maxSeconds: 86_400,
  maxTotalSeconds: 604_800,
  maxConsumers: 100_000,
  maxStreams: 100_000,
  maxUrlLength: 2048,
} as const

const limits = animationStreamRouteLimits
const mebibyte = 1024 * 1024

export type AnimationStreamRouteSpec = DeepReadonly<Static<typeof spec>>

export type AnimationStreamRoute = Resource<
  'tollway.dev/v1alpha1',
  'AnimationStreamRoute',
  AnimationStreamRouteSpec
>

const secondsOfLast: FieldRule = {
  cel: {
    rule: "self.from == 'last' ? has(self.seconds) : !has(self.seconds)",
    message: 'seconds belongs to from: last, which needs it; leave it out otherwise',
  },
  judge({ from = 'now', seconds }) {
    if (from === 'last' && seconds === undefined) {
      const allowed = `a whole number from 1 to ${limits.maxSeconds}`
      return [{ path: 'seconds', message: `is missing; from: last needs ${allowed}` }]
    }
    if (from !== 'last' && seconds !== undefined) {
      const message = `${describeFound(seconds)} is allowed with from: last only`
      return [{ path: 'seconds', message }]
    }
    return []
  },
}

const messageFitsBuffer: FieldRule = {
  cel: {
    rule: 'self.bufferBytes >= self.messageBytes',
    message: 'bufferBytes must be at least messageBytes, so that each message fits',
  },
  judge: fields => atMost(fields, 'messageBytes', 'bufferBytes'),
}

const idleWithinTotal: FieldRule = {
  cel: {
    rule: 'self.idleSeconds <= self.totalSeconds',
    message: 'idleSeconds must be at most totalSeconds',
  },
  judge: fields => atMost(fields, 'idleSeconds', 'totalSeconds'),
}

/** Checks that the buffer keeps the messages that a late joiner receives. */
const lastWithinBuffer: FieldRule = {
  cel: {
    rule: '!has(self.lateJoiners.seconds) || self.lateJoiners.seconds <= self.limits.bufferSeconds',
    message: 'lateJoiners.seconds must be at most limits.bufferSeconds, for no more is kept',
  },
  judge({ lateJoiners, limits: written = {} }) {
    const seconds = isFields(lateJoiners) ? lateJoiners['seconds'] : undefined
    const kept = isFields(written) ? limitOf(written, 'bufferSeconds') : undefined
    if (typeof seconds !== 'number' || typeof kept !== 'number' || seconds <= kept) return []
    const message = `${seconds} must be at most limits.bufferSeconds, ${kept}, for no more is kept`
    return [{ path: 'lateJoiners.seconds', message }]
  },
}

const limitDefaults = {
  messageBytes: 4 * mebibyte,
  bufferBytes: 4 * mebibyte,
  bufferSeconds: 30,
  idleSeconds: 30,
  totalSeconds: 3600,
  consumers: 1000,
  streams: 1000,
} as const

type LimitName = keyof typeof limitDefaults

function limitOf(written: Fields, name: LimitName): unknown {
  return written[name] ?? limitDefaults[name]
}

function atMost(written: Fields, name: LimitName, bound: LimitName) {
  const [value, most] = [limitOf(written, name), limitOf(written, bound)]
  if (typeof value !== 'number' || typeof most !== 'number' || value <= most) return []
  return [{ path: name, message: `${value} must be at most ${bound}, ${most}` }]
}

const id = (description: string) => Type.String({ default: '', maxLength: limits.maxIdLength, description })

const match = Type.Object(
  {
    sourceServiceId: id("The name that a pipeline's service gives itself in the header. Empty for any."),
    streamIdPrefix: id(
      'The prefix of the stream id. It belongs to the namespace of the oldest route that names it, and so ' +
        'does every longer prefix. Empty for any stream id; the empty prefix belongs to no namespace.',
    ),
    targetObjectId: id('The avatar or object that the animation is for. Empty for any.'),
  },
  {
    ...notRequired,
    default: {},
    description:
      'Which requests the route is for; all three have to agree. Of several routes that with the longest prefix ' +
      'counts, then that with more fields, then the oldest. Without any field it is for all that no other matches.',
  },
)

const ruleModes = ['off', 'warn', 'reject'] as const
const mode = (description: string) =>
  Type.Enum(ruleModes, {
    type: 'string',
    default: 'warn',
    description,
  })

const formatField = (maximum: number, description: string) =>
  Type.Integer({ minimum: 0, maximum, default: 0, description: `${description} 0 for any.` })

const audioFormat = Type.Object(
  {
    channelCount: formatField(64, 'Channels.'),
    samplesPerSecond: formatField(768_000, 'Samples of one channel in a second.'),
    bitsPerSample: formatField(64, 'Bits of one sample.'),
  },
  { ...notRequired, description: 'A format that is accepted.' },
)

const rules = Type.Object(
  {
    order: mode('Header first and once, then data, and a status at the end.'),
    timeCodes: mode('Time codes increase strictly, and those of two messages do not overlap.'),
    counts: mode('As many blend shape weights, joints and so on as the header names.'),
    audio: mode('The audio has a format that is accepted.'),
    audioFormats: Type.Array(audioFormat, {
      default: [],
      maxItems: limits.maxAudioFormats,
      'x-kubernetes-list-type': 'atomic',
      description: 'Accepted beside mono of 16 bits at 16, 44.1 and 48 kHz.',
    }),
  },
  {
    ...notRequired,
    default: {},
    description:
      'The rules for the messages of a request. A broken rule is ignored (off), reported by a ' +
      'WARNING status (warn), or ends the request (reject). Write "off" in quotes: YAML 1.1, which kubectl ' +
      'reads, has it for false.',
  },
)

const lateJoiners = Type.Object(
  {
    from: Type.Enum(['now', 'start', 'last'], {
      type: 'string',
      default: 'now',
      description:
        'What comes now, all that is kept from the start of the request, or the last seconds before now.',
    }),
    seconds: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: limits.maxSeconds,
        description: 'How many seconds, with from: last.',
      }),
    ),
  },
  {
    ...notRequired,
    ...withRules([secondsOfLast]),
    default: { from: 'now' },
    description: 'What a consumer gets, after the header, that comes while a request runs.',
  },
)

const limit = (name: LimitName, minimum: number, maximum: number, description: string) =>
  Type.Integer({ format: 'int64', default: limitDefaults[name], minimum, maximum, description })

const limitFields = {
  messageBytes: limit('messageBytes', 1024, limits.maxMessageBytes, 'The longest message.'),
  bufferBytes: limit(
    'bufferBytes',
    1024,
    limits.maxBufferBytes,
    'The most bytes of one request that are kept for its consumers.',
  ),
  bufferSeconds: limit(
    'bufferSeconds',
    1,
    limits.maxSeconds,
    'How long a message is kept for consumers, at most.',
  ),
  idleSeconds: limit(
    'idleSeconds',
    1,
    limits.maxSeconds,
    'A request ends after this time without a message.',
  ),
  totalSeconds: limit(
    'totalSeconds',
    1,
    limits.maxTotalSeconds,
    'A request ends after this time in any case.',
  ),
  consumers: limit(
    'consumers',
    1,
    limits.maxConsumers,
    'Consumers of one request at the same time, in each process.',
  ),
  streams: limit('streams', 1, limits.maxStreams, 'Requests of the route at the same time, in each process.'),
}

const secretEntry = (defaultKey: string, keyDescription: string, description: string) =>
  Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: 253,
        pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$',
        description: 'The name of the Secret, which is in the namespace of the route.',
      }),
      key: Type.String({
        default: defaultKey,
        minLength: 1,
        maxLength: 253,
        pattern: '^[-._a-zA-Z0-9]+$',
        description: keyDescription,
      }),
    },
    { required: ['name'], description },
  )

const tokenSecretRef = (description: string) =>
  Type.Optional(
    secretEntry('token', 'The entry with the token. Of several lines each one is a token.', description),
  )

const webhook = Type.Object(
  {
    url: Type.String({
      maxLength: limits.maxUrlLength,
      // Neither a user nor a fragment, as brokers require.
      pattern: '^https?://[^\\s/?#@]+([/?][^\\s#]*)?$',
      description: 'An http or https URL without a user, a password and a fragment.',
    }),
    secretRef: secretEntry(
      'secret',
      'The entry with the secret: "whsec_" and 24 to 64 random bytes in base64. Of two lines each one signs.',
      'The secret that signs each message. While it is missing, no message is posted; streams are served as usual.',
    ),
  },
  {
    required: ['url', 'secretRef'],
    description:
      'Brokers post a signed message to this URL when a request begins and when it ends, as the Standard Webhooks ' +
      'specification defines. No stream waits for a delivery.',
  },
)

const spec = Type.Object(
  {
    match,
    rules,
    lateJoiners,
    slowConsumers: Type.Enum(['wait', 'dropOldest', 'cutOff'], {
      type: 'string',
      default: 'wait',
      description:
        'The producer waits for the slowest consumer; a slow one misses messages, and gets a notice of ' +
        'the gap; or it is cut off with RESOURCE_EXHAUSTED.',
    }),
    concurrentRequests: Type.Enum(['queue', 'newest', 'refuse'], {
      type: 'string',
      default: 'queue',
      description:
        'A request that begins while a consumer is served another one waits for its turn, takes its place ' +
        '(the consumer gets a WARNING status), or is rejected.',
    }),
    limits: Type.Object(limitFields, {
      ...notRequired,
      ...withRules([messageFitsBuffer, idleWithinTotal]),
      // The default has every field, because the API server validates it before it applies the defaults of
      // its fields.
      default: limitDefaults,
      description: 'How much a request may take. Reaching a limit is an answer, never a loss of others.',
    }),
    tokenSecretRef: tokenSecretRef(
      'The token to push and to pull what the route matches, and every other stream with its prefix: callers bring ' +
        'it as authorization: Bearer TOKEN. While the Secret is missing the route is closed to all callers. A right ' +
        'for which no Secret is named is open to all, unless another route protects the prefix.',
    ),
    pushTokenSecretRef: tokenSecretRef('The token to push only, in addition to that of tokenSecretRef.'),
    pullTokenSecretRef: tokenSecretRef('The token to pull only, in addition to that of tokenSecretRef.'),
    notify: Type.Optional(
      Type.Object({ webhook }, { required: ['webhook'], description: 'Who is notified of requests.' }),
    ),
  },
  {
    ...notRequired,
    ...withRules([lastWithinBuffer]),
    description: 'The requests that the route serves, and the rules for them.',
  },
)

const load = (description: string) =>
  Type.Optional(Type.Integer({ format: 'int64', minimum: 0, description }))

const status = Type.Object(
  {
    ...commonStatus(),
    activeStreams: load('Requests whose producer is connected, in all processes; some seconds old.'),
    consumers: load('Consumers that are connected, in all processes; some seconds old.'),
    ...feedStatus('route'),
  },
  { description: 'How far the operator got. Written by the operator only.' },
)

export const animationStreamRouteKind: ResourceKind = {
  kind: 'AnimationStreamRoute',
  version: 'v1alpha1',
  plural: 'animationstreamroutes',
  singular: 'animationstreamroute',
  shortNames: ['asr'],
  description:
    'The rules for animation streams with certain ids: the checks of messages, what consumers receive, and the limits.',
  spec,
  status,
  columns: [
    {
      name: 'Prefix',
      type: 'string',
      jsonPath: '.spec.match.streamIdPrefix',
      description: 'What the stream ids begin with.',
    },
    {
      name: 'Source',
      type: 'string',
      jsonPath: '.spec.match.sourceServiceId',
      description: 'The service that the streams come from.',
    },
    {
      name: 'Streams',
      type: 'integer',
      jsonPath: '.status.activeStreams',
      description: 'Requests whose producer is connected.',
    },
    {
      name: 'Consumers',
      type: 'integer',
      jsonPath: '.status.consumers',
      description: 'Consumers that are connected.',
    },
    ...feedColumns,
  ],
}
