import Type, { type Static } from 'typebox'
import { answerShape, countShape, paged, rateShape, textShape } from './shape-parts.ts'

export const streamList = paged(
  answerShape(
    {
      key: textShape('Identifies the request at every broker.'),
      streamId: textShape('The stream id.'),
      requestId: textShape('The request id.'),
      targetObjectId: textShape('The target object id.'),
      sourceServiceId: textShape('The source service id.'),
      route: textShape('`namespace/name` of the route, or `default`.'),
      state: textShape('`running` or `ended`.'),
      end: textShape('How the request ended; empty while it runs.'),
      ageMs: rateShape('Milliseconds since its begin.'),
      producers: Type.Array(Type.String(), { description: 'The addresses of the producers.' }),
      consumers: Type.Array(
        answerShape(
          {
            broker: textShape('The broker.'),
            peer: textShape('The address of the consumer.'),
            messagesBehind: countShape('The messages that it has not taken.'),
            bytesBehind: countShape('Their bytes.'),
          },
          'A consumer.',
        ),
        { description: 'The consumers.' },
      ),
      messages: Type.Optional(countShape('The messages of the producer, if a broker knows them.')),
      bytes: Type.Optional(countShape('Their bytes.')),
    },
    'One request.',
  ),
  {
    missing: Type.Array(
      answerShape(
        { broker: textShape('The broker.'), problem: textShape('The cause.') },
        'A broker without an answer.',
      ),
    ),
    unlisted: countShape(
      'The requests that brokers with too many of them leave out, counted at each broker.',
    ),
  },
  'Requests of the brokers, sorted by key.',
)

const curve = answerShape(
  {
    name: textShape('The name, at most 64 characters.'),
    values: Type.Array(Type.Number(), { maxItems: 200, description: 'A value for each of `times`.' }),
  },
  'The weights of one blend shape.',
)

const envelope = Type.Array(
  Type.Union([Type.Array(Type.Number(), { minItems: 2, maxItems: 2 }), Type.Null()], {
    description: 'The smallest and the largest sample, from -1 to 1; null without samples.',
  }),
  { maxItems: 400, description: 'Equal parts of the time from `seconds.from` to `seconds.to`.' },
)

export const streamPreview = answerShape(
  {
    key: textShape('Identifies the request.'),
    streamId: textShape('The stream id.'),
    requestId: textShape('The request id.'),
    targetObjectId: textShape('The target object id.'),
    ended: Type.Boolean({ description: 'Whether the request has ended.' }),
    preview: Type.Union(
      [
        answerShape(
          {
            seconds: Type.Union(
              [
                answerShape(
                  {
                    from: Type.Number({ description: 'The first.' }),
                    to: Type.Number({ description: 'The last.' }),
                  },
                  'Time codes.',
                ),
                Type.Null(),
              ],
              { description: 'The range of the time codes, in seconds after the start of the header.' },
            ),
            messages: countShape('The messages that were read, the last ones of the request.'),
            audio: Type.Union(
              [
                answerShape(
                  {
                    samplesPerSecond: countShape('The sample rate.'),
                    channelCount: countShape('The number of channels.'),
                    envelope,
                  },
                  'The audio.',
                ),
                Type.Null(),
              ],
              { description: 'Null if the request has no audio in PCM of 8, 16 or 32 bits.' },
            ),
            blendShapes: Type.Array(curve, {
              maxItems: 16,
              description: 'The blend shapes whose weights change most.',
            }),
            times: Type.Array(Type.Number(), {
              maxItems: 200,
              description: 'The time codes of the values, in seconds.',
            }),
          },
          'The last messages.',
        ),
        Type.Null(),
      ],
      { description: 'Null if no message is kept any more.' },
    ),
  },
  'The last messages of one request, decimated. At most 64 KiB.',
)

export type StreamList = Static<typeof streamList>
export type StreamPreview = Static<typeof streamPreview>
