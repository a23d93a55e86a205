import Type, { type Static } from 'typebox'
import { describeFound } from './describe.ts'
import { feedColumns, type ResourceKind } from './resource-kind.ts'
import { commonStatus, feedStatus } from './resource-status.ts'
import { type DeepReadonly, type FieldRule, type Fields, isFields, notRequired, withRules } from './schema.ts'

/** The limits of the fields; lengths are in characters. */
const limits = {
  /** Brokers have the same limit: a longer id would match no request. */
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

const mebibyte = 1024 * 1024

export type AnimationStreamRouteSpec = DeepReadonly<Static<typeof spec>>

const secondsOfLast: FieldRule = {
  cel: {
    rule: "self.from == 'last' ? has(self.seconds) : !has(self.seconds)",
    message: 'seconds is required with from: last, and not allowed otherwise',
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
    message: 'bufferBytes must be at least messageBytes, so that the buffer has room for each message',
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

const lastWithinBuffer: FieldRule = {
  cel: {
    rule: '!has(self.lateJoiners.seconds) || self.lateJoiners.seconds <= self.limits.bufferSeconds',
    message: 'lateJoiners.seconds must be at most limits.bufferSeconds, because older messages are not kept',
  },
  judge({ lateJoiners, limits: written = {} }) {
    const seconds = isFields(lateJoiners) ? lateJoiners['seconds'] : undefined
    const kept = isFields(written) ? readLimit(written, 'bufferSeconds') : undefined
    if (typeof seconds !== 'number' || typeof kept !== 'number' || seconds <= kept) return []
    const bound = `limits.bufferSeconds, ${kept}, because older messages are not kept`
    return [{ path: 'lateJoiners.seconds', message: `${seconds} must be at most ${bound}` }]
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

function readLimit(written: Fields, name: LimitName): unknown {
  return written[name] ?? limitDefaults[name]
}

function atMost(written: Fields, name: LimitName, bound: LimitName) {
  const [value, most] = [readLimit(written, name), readLimit(written, bound)]
  if (typeof value !== 'number' || typeof most !== 'number' || value <= most) return []
  return [{ path: name, message: `${value} must be at most ${bound}, ${most}` }]
}

const id = (description: string) => Type.String({ default: '', maxLength: limits.maxIdLength, description })

const match = Type.Object(
  {
    sourceServiceId: id('The source service id in the header of the request. Empty matches any.'),
    streamIdPrefix: id(
      'The prefix of the stream id. The prefix and every longer prefix belong to the namespace of the oldest ' +
        'route with this prefix. Empty matches any stream id, and belongs to no namespace.',
    ),
    targetObjectId: id('The id of the avatar or object that is animated. Empty matches any.'),
  },
  {
    ...notRequired,
    default: {},
    description:
      'The requests to which the route applies: all fields must match. If several routes match a request, the one ' +
      'with the longest prefix applies, then the one with more fields, then the oldest. A route without any field ' +
      'applies to requests that no other route matches.',
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
  Type.Integer({ minimum: 0, maximum, default: 0, description: `${description} 0 accepts any.` })

const audioFormat = Type.Object(
  {
    channelCount: formatField(64, 'The number of channels.'),
    samplesPerSecond: formatField(768_000, 'The sample rate of a channel in Hz.'),
    bitsPerSample: formatField(64, 'The number of bits in a sample.'),
  },
  { ...notRequired, description: 'An accepted format.' },
)

const rules = Type.Object(
  {
    order: mode('The messages are one header, then data, then one status.'),
    timeCodes: mode('Time codes increase strictly, and the time ranges of two messages do not overlap.'),
    counts: mode(
      'Each message has as many blend shape weights and joint transforms as the header has names of them.',
    ),
    audio: mode('The format of the audio is accepted.'),
    audioFormats: Type.Array(audioFormat, {
      default: [],
      maxItems: limits.maxAudioFormats,
      'x-kubernetes-list-type': 'atomic',
      description: 'Accepted formats, in addition to mono with 16 bits at 16, 44.1 and 48 kHz.',
    }),
  },
  {
    ...notRequired,
    default: {},
    description:
      'The rules for the messages of a request. A violation of a rule is ignored (off), reported by a WARNING ' +
      'status (warn), or ends the request (reject). Write "off" in quotes: kubectl reads YAML 1.1, in which off ' +
      'without quotes is false.',
  },
)

const lateJoiners = Type.Object(
  {
    from: Type.Enum(['now', 'start', 'last'], {
      type: 'string',
      default: 'now',
      description:
        'The messages that a late joiner receives: only new ones (now), all that are kept from the start of the ' +
        'request (start), or those of the time in the field seconds (last). New messages follow in each case.',
    }),
    seconds: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: limits.maxSeconds,
        description: 'The time before now, in seconds. Required with from: last, and not allowed otherwise.',
      }),
    ),
  },
  {
    ...notRequired,
    ...withRules([secondsOfLast]),
    default: { from: 'now' },
    description: 'The messages that a consumer receives after the header if it joins a running request.',
  },
)

const limit = (name: LimitName, minimum: number, maximum: number, description: string) =>
  Type.Integer({ format: 'int64', default: limitDefaults[name], minimum, maximum, description })

const limitFields = {
  messageBytes: limit(
    'messageBytes',
    1024,
    limits.maxMessageBytes,
    'The maximum size of a message in bytes.',
  ),
  bufferBytes: limit(
    'bufferBytes',
    1024,
    limits.maxBufferBytes,
    'The maximum size of the messages of one request that are kept for its consumers, in bytes.',
  ),
  bufferSeconds: limit(
    'bufferSeconds',
    1,
    limits.maxSeconds,
    'The maximum time that a message is kept for consumers, in seconds.',
  ),
  idleSeconds: limit(
    'idleSeconds',
    1,
    limits.maxSeconds,
    'The time without a message after which a request ends, in seconds.',
  ),
  totalSeconds: limit(
    'totalSeconds',
    1,
    limits.maxTotalSeconds,
    'The maximum duration of a request, in seconds.',
  ),
  consumers: limit(
    'consumers',
    1,
    limits.maxConsumers,
    'The maximum number of concurrent consumers of one request in each process.',
  ),
  streams: limit(
    'streams',
    1,
    limits.maxStreams,
    'The maximum number of concurrent requests of the route in each process.',
  ),
}

const secretEntry = (defaultKey: string, keyDescription: string, description: string) =>
  Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: 253,
        pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$',
        description: 'The name of the Secret, in the namespace of the route.',
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
  Type.Optional(secretEntry('token', 'The entry with the tokens, one in each line.', description))

const webhook = Type.Object(
  {
    url: Type.String({
      maxLength: limits.maxUrlLength,
      // Brokers accept neither a user nor a fragment in the URL.
      pattern: '^https?://[^\\s/?#@]+([/?][^\\s#]*)?$',
      description: 'An http or https URL without a user, a password and a fragment.',
    }),
    secretRef: secretEntry(
      'secret',
      'The entry with the secret: "whsec_" and 24 to 64 random bytes in base64. It has one or two lines, each with a ' +
        'secret; messages have a signature by each.',
      'The secret that signs each message. If the Secret is missing, no message is posted; streams are not affected.',
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
        'The handling of consumers that are slower than the producer: the producer waits for the slowest consumer ' +
        '(wait), the slow consumer misses the oldest messages and receives a notice of the gap (dropOldest), or its ' +
        'call ends with RESOURCE_EXHAUSTED (cutOff).',
    }),
    concurrentRequests: Type.Enum(['queue', 'newest', 'refuse'], {
      type: 'string',
      default: 'queue',
      description:
        'The handling of a request that begins while its consumer receives another one: it waits until the other ' +
        'one ends (queue), replaces it, and the consumer receives a WARNING status (newest), or is rejected (refuse).',
    }),
    limits: Type.Object(limitFields, {
      ...notRequired,
      ...withRules([messageFitsBuffer, idleWithinTotal]),
      // The default has every field, because the API server validates it before it fills in the defaults of
      // the fields in it.
      default: limitDefaults,
      description:
        'The limits of requests. A call that exceeds a limit ends with an error; other requests are not affected.',
    }),
    tokenSecretRef: tokenSecretRef(
      'The tokens that grant push and pull of every stream that the route matches, and of every other stream with ' +
        'its prefix. Callers send one as authorization: Bearer TOKEN. If the Secret is missing, all callers are ' +
        'rejected. A right for which no Secret is named needs no token, unless another route protects the prefix.',
    ),
    pushTokenSecretRef: tokenSecretRef(
      'Tokens that grant only push, in addition to the tokens of tokenSecretRef.',
    ),
    pullTokenSecretRef: tokenSecretRef(
      'Tokens that grant only pull, in addition to the tokens of tokenSecretRef.',
    ),
    notify: Type.Optional(
      Type.Object(
        { webhook },
        { required: ['webhook'], description: 'The receiver of notifications about requests.' },
      ),
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
    activeStreams: load(
      'The number of requests whose producer is connected, in all processes. The value is some seconds old.',
    ),
    consumers: load('The number of connected consumers in all processes. The value is some seconds old.'),
    ...feedStatus('route'),
  },
  { description: 'The observed state. Only the operator writes it.' },
)

export const animationStreamRouteKind: ResourceKind = {
  kind: 'AnimationStreamRoute',
  version: 'v1alpha1',
  plural: 'animationstreamroutes',
  singular: 'animationstreamroute',
  shortNames: ['asr'],
  description:
    'The checks, the delivery to consumers, and the limits of the animation streams that match certain ids.',
  spec,
  status,
  columns: [
    {
      name: 'Prefix',
      type: 'string',
      jsonPath: '.spec.match.streamIdPrefix',
      description: 'The prefix of the stream ids.',
    },
    {
      name: 'Source',
      type: 'string',
      jsonPath: '.spec.match.sourceServiceId',
      description: 'The source service id of the streams.',
    },
    {
      name: 'Streams',
      type: 'integer',
      jsonPath: '.status.activeStreams',
      description: 'The number of requests whose producer is connected.',
    },
    {
      name: 'Consumers',
      type: 'integer',
      jsonPath: '.status.consumers',
      description: 'The number of connected consumers.',
    },
    ...feedColumns,
  ],
}
