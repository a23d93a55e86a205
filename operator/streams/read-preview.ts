import { fieldsOf, isNumber, textOf } from './read-json.ts'

/** The last messages of a request, decimated by the broker that keeps them. */
export interface PreviewPage {
  readonly key: string
  readonly streamId: string
  readonly requestId: string
  readonly targetObjectId: string
  readonly ended: boolean
  /** Null if no message is kept any more. */
  readonly preview: Preview | null
}

interface Preview {
  readonly seconds: { readonly from: number; readonly to: number } | null
  readonly messages: number
  readonly audio: AudioPreview | null
  readonly blendShapes: readonly { readonly name: string; readonly values: readonly number[] }[]
  readonly times: readonly number[]
}

interface AudioPreview {
  readonly samplesPerSecond: number
  readonly channelCount: number
  /** The least and the most sample of each part; null without samples. */
  readonly envelope: readonly (readonly number[] | null)[]
}

const maxParts = 400
const maxFrames = 200
const maxCurves = 16
const maxNameChars = 64

/**
 * Reads the JSON of a broker's preview of the request with this key; undefined for JSON of another form.
 * Other fields are left out, and lists that are too long are cut.
 */
export function readPreview(value: unknown, key: string): PreviewPage | undefined {
  const { key: found, streamId, requestId, targetObjectId, ended, preview } = fieldsOf(value)
  if (found !== key || typeof preview !== 'object') return undefined
  return {
    key,
    ...{ streamId: textOf(streamId), requestId: textOf(requestId), targetObjectId: textOf(targetObjectId) },
    ended: ended === true,
    preview: preview === null ? null : readMessages(fieldsOf(preview)),
  }
}

type Fields = Readonly<Record<string, unknown>>

function readMessages({ seconds, messages, audio, blendShapes, times }: Fields): Preview {
  const { from, to } = fieldsOf(seconds)
  return {
    seconds: isNumber(from) && isNumber(to) ? { from, to } : null,
    messages: countOf(messages),
    audio: audio === null || audio === undefined ? null : readAudio(fieldsOf(audio)),
    blendShapes: listOf(blendShapes, maxCurves).map(curve => {
      const { name, values } = fieldsOf(curve)
      return { name: textOf(name).slice(0, maxNameChars), values: numbersOf(values) }
    }),
    times: numbersOf(times),
  }
}

function readAudio({ samplesPerSecond, channelCount, envelope }: Fields): AudioPreview {
  return {
    samplesPerSecond: countOf(samplesPerSecond),
    channelCount: countOf(channelCount),
    envelope: listOf(envelope, maxParts).map(part => {
      const [least, most] = listOf(part, 2)
      return isNumber(least) && isNumber(most) ? [least, most] : null
    }),
  }
}

const countOf = (value: unknown) => (isNumber(value) && value > 0 ? Math.floor(value) : 0)
const listOf = (value: unknown, most: number): readonly unknown[] =>
  Array.isArray(value) ? value.slice(0, most) : []
const numbersOf = (value: unknown) => listOf(value, maxFrames).map(number => (isNumber(number) ? number : 0))
