import fc from 'fast-check'
import { frame } from '../../server/testing/contract/support.ts'
import { frameBytes, frameFlags, frameTypes, wordBytes } from '../frames/frames.ts'
import { encodeHeaderBlock } from '../hpack/hpack-encoder.ts'
import { requestFields, settingsPayload } from './raw-client.ts'

/** An action of a peer on a connection: it sends a frame, valid or not, or the server begins to drain. */
export interface Step {
  readonly type: number
  readonly flags: number
  /**
   * The stream of the frame: this many before the newest one (0 is the newest), or the connection. HEADERS
   * begin a new stream.
   */
  readonly back: number | 'connection'
  readonly payload: Uint8Array
  /**
   * Bytes that are overwritten, counted from the beginning of the frame; positions after its end have no
   * effect.
   */
  readonly mutations: readonly { readonly at: number; readonly byte: number }[]
  /** The position at which the frame is split into two chunks. */
  readonly cut: number | undefined
  readonly drains: boolean
}

/** Returns the bytes of a step's frame, and the number of the newest stream after it. */
export function toFrame(step: Step, newestId: number): { readonly bytes: Buffer; readonly newestId: number } {
  const begins = step.type === frameTypes.HEADERS && step.back === 0
  const newest = begins ? newestId + 2 : newestId
  const id = step.back === 'connection' ? 0 : Math.max(1, newest - 2 * step.back)
  const bytes = frameBytes(step.type, step.flags, id, step.payload)
  for (const { at, byte } of step.mutations) if (at < bytes.length) bytes.writeUInt8(byte, at)
  return { bytes, newestId: newest }
}

const word = fc.constantFrom(0, 1, 8, 65_535, 2 ** 31 - 1).map(value => wordBytes(value))
const message = fc.string({ maxLength: 30 }).map(text => frame(text))
const settings = fc.tuple(fc.nat(7), fc.nat(70_000)).map(setting => settingsPayload(setting))
const recent = fc.nat(3)
const ofConnection = fc.constant('connection' as const)

function headers(paths: readonly string[]): fc.Arbitrary<Uint8Array> {
  const fields = paths.map(path => requestFields(path, [['grpc-timeout', '1S']]))
  return fc.constantFrom(...fields.map(encodeHeaderBlock))
}

function frames(
  type: number,
  flags: readonly number[],
  back: fc.Arbitrary<number | 'connection'>,
  payload: fc.Arbitrary<Uint8Array>,
) {
  return fc.record({ type: fc.constant(type), flags: fc.constantFrom(...flags), back, payload })
}

/**
 * Generates frames as a client sends them. They create streams in every state, for which invalid frames then
 * arrive.
 */
function soundFrame(paths: readonly string[]) {
  const { END_HEADERS, END_STREAM, ACK } = frameFlags
  return fc.oneof(
    {
      weight: 4,
      arbitrary: frames(
        frameTypes.HEADERS,
        [END_HEADERS, END_HEADERS | END_STREAM],
        fc.constant(0),
        headers(paths),
      ),
    },
    { weight: 6, arbitrary: frames(frameTypes.DATA, [0, END_STREAM], recent, message) },
    { weight: 1, arbitrary: frames(frameTypes.RST_STREAM, [0], recent, word) },
    { weight: 1, arbitrary: frames(frameTypes.WINDOW_UPDATE, [0], recent, word) },
    { weight: 1, arbitrary: frames(frameTypes.WINDOW_UPDATE, [0], ofConnection, word) },
    { weight: 1, arbitrary: frames(frameTypes.SETTINGS, [0, ACK], ofConnection, settings) },
    { weight: 1, arbitrary: frames(frameTypes.PING, [0, ACK], ofConnection, fc.constant(Buffer.alloc(8))) },
  )
}

/**
 * Generates steps with calls of these paths. Half of the frames are mutated, a fifth is random, and a third
 * arrives in two chunks.
 */
export function frameStep(paths: readonly string[]): fc.Arbitrary<Step> {
  const anyFrame = fc.record({
    type: fc.oneof(fc.constantFrom(...Object.values(frameTypes)), fc.nat(255)),
    flags: fc.oneof(fc.constantFrom(0, 1, 4, 5), fc.nat(255)),
    back: fc.oneof(recent, ofConnection),
    payload: fc.oneof(headers(paths), message, word, settings, fc.uint8Array({ maxLength: 40 })),
  })
  const mutation = fc.record({ at: fc.nat(60), byte: fc.nat(255) })
  return fc
    .tuple(
      fc.oneof({ weight: 4, arbitrary: soundFrame(paths) }, { weight: 1, arbitrary: anyFrame }),
      fc.oneof(fc.constant([]), fc.array(mutation, { minLength: 1, maxLength: 3 })),
      fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.nat(40) }),
      fc.nat(50),
    )
    .map(([sent, mutations, cut, drawn]) => ({ ...sent, mutations, cut, drains: drawn === 0 }))
}
