import Type from 'typebox'

/**
 * What the status of every kind begins with. The conditions have the form of Kubernetes' `meta/v1`
 * Condition, limits included, so that `kubectl wait` and other programs can read them.
 */
export function commonStatus() {
  return {
    observedGeneration: Type.Optional(
      Type.Integer({
        format: 'int64',
        minimum: 0,
        description:
          'The generation of the resource that this status tells about. When it is lower than ' +
          'metadata.generation, the latest change has not been looked at yet.',
      }),
    ),
    conditions: Type.Optional(
      Type.Array(condition(), {
        maxItems: 16,
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['type'],
        description: 'How far the resource got, one condition a type.',
      }),
    ),
  }
}

/**
 * What the status of a kind has that is fed to processes.
 *
 * @param content what the resource says, in a word or two: `limits`.
 */
export function feedStatus(content: string) {
  return {
    enforced: Type.Optional(
      Type.String({
        maxLength: 32,
        description: `How many processes enforce the ${content}, of those that take calls: 2/2.`,
      }),
    ),
    lastGood: Type.Optional(
      Type.Object(
        {
          generation: Type.Integer({
            format: 'int64',
            minimum: 0,
            description: 'The generation of the resource that said so.',
          }),
          content: Type.String({
            maxLength: 1_000_000,
            description: `The ${content}, as JSON that is compressed by gzip, in base64.`,
          }),
        },
        {
          description:
            'Not written any more. Earlier versions kept here what stays in force while a later generation is ' +
            'wrong; the operator moves it to ConfigMaps of its own namespace.',
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
        description: 'What the condition tells, in one CamelCase word such as Ready.',
      }),
      status: Type.Enum(['True', 'False', 'Unknown'], {
        type: 'string',
        description: 'Whether the condition holds.',
      }),
      observedGeneration: Type.Optional(
        Type.Integer({
          format: 'int64',
          minimum: 0,
          description: 'The generation of the resource that the condition was derived from.',
        }),
      ),
      lastTransitionTime: Type.String({
        format: 'date-time',
        maxLength: 64,
        description: 'When the status of the condition last changed.',
      }),
      reason: Type.String({
        minLength: 1,
        maxLength: 1024,
        pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$',
        description: 'Why the condition has its status, in one CamelCase word for programs.',
      }),
      message: Type.String({
        maxLength: 32_768,
        description:
          'Why the condition has its status, for people. Says what to do where something is wrong.',
      }),
    },
    { description: 'One thing about the resource that holds, or does not.' },
  )
}
