import Type, { type TProperties, type TSchema } from 'typebox'

export const textShape = (description: string) => Type.String({ description })
export const countShape = (description: string) => Type.Integer({ minimum: 0, description })
export const rateShape = (description: string) => Type.Number({ minimum: 0, description })
export const unixMs = (description: string) =>
  Type.Integer({ description: `${description} Unix time in milliseconds.` })

/**
 * Creates the schema of an answer, which allows unknown fields: later versions may send more. Bodies of
 * callers must not have unknown fields.
 */
export const answerShape = <Fields extends TProperties>(fields: Fields, description: string) =>
  Type.Object(fields, { description })

export const paged = <Item extends TSchema, More extends TProperties>(
  item: Item,
  more: More,
  description: string,
) =>
  Type.Object(
    {
      items: Type.Array(item),
      next: Type.Optional(textShape('The value of `after` for the next page. Missing on the last page.')),
      ...more,
    },
    { description },
  )

export const warnings = Type.Array(
  answerShape({ field: textShape('The field.'), message: textShape('The reason.') }, 'A warning.'),
  { description: 'Settings of the resource that are valid and probably mistakes.' },
)

export const hits = {
  calls: countShape('Calls. 0 from pods of an earlier version.'),
  allowed: countShape('Allowed hits.'),
  refused: countShape('Rejected hits.'),
  near: countShape('Allowed hits near the limit.'),
  shadow: countShape('Hits over the limit that were allowed because of the shadow mode.'),
}

export const missing = {
  missing: Type.Array(Type.String(), { description: 'The names of the pods that did not answer in time.' }),
}

export const hashed = Type.Boolean({
  description: 'Whether pods report hashes instead of values (DECISION_KEYS_HASHED): no key of a counter.',
})

/** The maximum length of a domain in a call. Domains of RateLimitConfigs are shorter. */
export const maxDomainLength = 1_024

/**
 * The schema of an entry in a body. Its limits suffice for Envoy, whose requests have at most 60 KiB of
 * headers by default.
 */
const sentEntry = Type.Object(
  {
    key: Type.String({ minLength: 1, maxLength: 4_096, description: 'The key, such as `user`.' }),
    value: Type.String({ maxLength: 65_536, description: 'The value, such as `alice`.' }),
  },
  { description: 'One entry of a descriptor.' },
)

export const sentEntries = Type.Array(sentEntry, {
  minItems: 1,
  maxItems: 64,
  description: 'The entries of one descriptor, in order.',
})

export const sentDomain = Type.String({
  minLength: 1,
  maxLength: maxDomainLength,
  description: 'The domain, such as `checkout`.',
})

export const entry = answerShape(
  { key: textShape('The key, such as `user`.'), value: textShape('The value, such as `alice`.') },
  'One entry of a descriptor.',
)

export const entries = Type.Array(entry, { description: 'The entries of one descriptor, in order.' })

export const domain = textShape('The domain, such as `checkout`.')
