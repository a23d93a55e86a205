import Type from 'typebox'

/**
 * Returns the fields with which the status of every kind begins. The conditions have the form and the limits
 * of the Condition in Kubernetes' `meta/v1`, so that `kubectl wait` and other programs can read them.
 */
export function commonStatus() {
  return {
    observedGeneration: Type.Optional(
      Type.Integer({
        format: 'int64',
        minimum: 0,
        description:
          'The generation of the resource that this status describes. If it is lower than ' +
          'metadata.generation, the operator has not processed the latest change yet.',
      }),
    ),
    conditions: Type.Optional(
      Type.Array(condition(), {
        maxItems: 16,
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['type'],
        description: 'The state of the resource, one condition per type.',
      }),
    ),
  }
}

/**
 * Returns the status fields of a kind that service processes enforce.
 *
 * @param content what the resource contains, in one word for the descriptions: `limits`
 */
export function feedStatus(content: string) {
  return {
    enforced: Type.Optional(
      Type.String({
        maxLength: 32,
        description: `The processes that enforce the ${content}, and the processes that serve calls: 2/2.`,
      }),
    ),
    lastGood: Type.Optional(
      Type.Object(
        {
          generation: Type.Integer({
            format: 'int64',
            minimum: 0,
            description: 'The generation of the resource with this content.',
          }),
          content: Type.String({
            maxLength: 1_000_000,
            description: `The ${content}, as JSON that is compressed with gzip, in base64.`,
          }),
        },
        {
          description:
            'Deprecated: not written any more. Earlier versions stored the last good version in this field. The ' +
            'operator moves it to ConfigMaps in its own namespace.',
        },
      ),
    ),
  }
}

function condition() {
  return Type.Object(
    {
      type: Type.String({
        maxLength: 316,
        pattern:
          '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?' +
          '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$',
        description: 'The type of the condition, in one CamelCase word such as Ready.',
      }),
      status: Type.Enum(['True', 'False', 'Unknown'], {
        type: 'string',
        description: 'The status of the condition.',
      }),
      observedGeneration: Type.Optional(
        Type.Integer({
          format: 'int64',
          minimum: 0,
          description: 'The generation of the resource that the condition is based on.',
        }),
      ),
      lastTransitionTime: Type.String({
        format: 'date-time',
        maxLength: 64,
        description: 'The time at which the status of the condition last changed.',
      }),
      reason: Type.String({
        minLength: 1,
        maxLength: 1024,
        pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$',
        description: 'The reason for the status of the condition, in one CamelCase word for programs.',
      }),
      message: Type.String({
        maxLength: 32_768,
        description:
          'The reason for the status of the condition, for people. The message of a problem includes its solution.',
      }),
    },
    { description: 'One aspect of the state of the resource.' },
  )
}
