import { fromBinary } from '@bufbuild/protobuf'
import {
  type ChannelCredentials,
  Client,
  type ClientReadableStream,
  credentials,
  status as grpcJsStatus,
  Metadata,
} from '@grpc/grpc-js'
import { StatusSchema } from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import type { Cleanup } from '../../../../test/support/tollway.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { decodeText } from '../../streams/testing/simulation-under-test.ts'
import type { AnimationIds } from '../../wire/animation-ids.ts'
import { animationStatusCodes } from '../../wire/status.ts'
import { encodeAnimationIds } from '../../wire/testing/encode-messages.ts'
import { animationServices } from '../grpc-methods.ts'

/** The call of a producer on grpc-js, which shares no code with the broker. */
export interface PushCall {
  write(bytes: Uint8Array): void
  /** Half-closes. */
  end(): void
  cancel(): void
  /** Resolves with `SUCCESS 3 messages`, or with the name of a gRPC code and its text. */
  readonly answer: Promise<string>
  /**
   * Resolves with the text values of the initial metadata of the response; never settles if there are none.
   */
  readonly headers: Promise<Readonly<Record<string, string>>>
}

/** The call of a consumer on grpc-js. */
export interface PullCall {
  readonly messages: readonly Uint8Array[]
  /** Returns the messages in the form of `decodeText`. */
  texts(): readonly string[]
  /** Resolves when the last message received so far has this text. */
  until(text: string): Promise<void>
  /** Stops reading from the connection. */
  stall(): void
  resume(): void
  cancel(): void
  /** Resolves with `OK`, or with the name of a gRPC code and its text. */
  readonly end: Promise<string>
}

export interface AnimationClient {
  push(metadata?: Readonly<Record<string, string>>): PushCall
  pull(wanted: Partial<AnimationIds>, metadata?: Readonly<Record<string, string>>): PullCall
}

export interface ClientOptions {
  readonly service?: string
  readonly tls?: ChannelCredentials
}

const identity = (bytes: Buffer) => bytes
const codeName = (code: number) => grpcJsStatus[code] ?? String(code)

/** Opens a client with a connection of its own. */
export function openAnimationClient(
  t: Cleanup,
  target: string,
  { service = animationServices.specified, tls = credentials.createInsecure() }: ClientOptions = {},
): AnimationClient {
  const client = new Client(target, tls, {
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_http_proxy': 0,
    'grpc.initial_reconnect_backoff_ms': 50,
    'grpc.max_reconnect_backoff_ms': 200,
  })
  t.after(async () => client.close())
  return {
    push(fields = {}) {
      const answer = Promise.withResolvers<string>()
      const headers = Promise.withResolvers<Readonly<Record<string, string>>>()
      const call = client.makeClientStreamRequest(
        `/${service}/PushAnimationDataStream`,
        identity,
        identity,
        toMetadata(fields),
        (error, bytes) => {
          if (error) answer.resolve(`${codeName(error.code)} ${error.details}`)
          else answer.resolve(statusText(bytes ?? Buffer.alloc(0)))
        },
      )
      call.on('error', () => {})
      call.on('metadata', (metadata: Metadata) => {
        const entries = Object.entries(metadata.getMap())
        headers.resolve(Object.fromEntries(entries.map(([name, value]) => [name, String(value)])))
      })
      return {
        headers: headers.promise,
        write: bytes => call.write(Buffer.from(bytes)),
        end: () => call.end(),
        cancel: () => call.cancel(),
        answer: answer.promise,
      }
    },
    pull(wanted, fields = {}) {
      const ids = { requestId: '', streamId: '', targetObjectId: '', ...wanted }
      const call = client.makeServerStreamRequest(
        `/${service}/PullAnimationDataStream`,
        identity,
        identity,
        Buffer.from(encodeAnimationIds(ids)),
        toMetadata(fields),
      )
      return pullCall(call)
    },
  }
}

function pullCall(call: ClientReadableStream<Buffer>): PullCall {
  const messages: Uint8Array[] = []
  const end = Promise.withResolvers<string>()
  call.on('data', (bytes: Buffer) => messages.push(bytes))
  call.on('error', () => {})
  call.on('status', ({ code, details }) => {
    setImmediate(() => end.resolve(code === 0 ? 'OK' : `${codeName(code)} ${details}`))
  })
  const texts = () => messages.map(decodeText)
  let ended: string | undefined
  end.promise.then(status => {
    ended = status
  })
  return {
    messages,
    texts,
    async until(text) {
      const found = () => `${text}, got ${texts().slice(-5).join(', ')} with the end ${ended}`
      await waitFor(found, () => texts().at(-1) === text)
    },
    stall: () => void call.pause(),
    resume: () => void call.resume(),
    cancel: () => call.cancel(),
    end: end.promise,
  }
}

function toMetadata(fields: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(fields)) metadata.set(name, value)
  return metadata
}

/** Returns the text of a Status, decoded with the generated code. */
function statusText(bytes: Uint8Array): string {
  const { code, message } = fromBinary(StatusSchema, bytes)
  return `${animationStatusCodes[code]} ${message}`.trimEnd()
}
