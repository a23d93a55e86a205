import type { AnyMethod, Call, MessageSink, Method } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Broker } from '../streams/broker.ts'
import type { Push } from '../streams/push.ts'
import { type AnimationIds, IdTooLong } from '../wire/animation-ids.ts'
import { MalformedMessage } from '../wire/protobuf-reader.ts'
import { readAnimationIds } from '../wire/read-header.ts'
import { encodeStatus, type Status } from '../wire/status.ts'
import { reflectionMethods } from './reflection-methods.ts'

/**
 * The full names of the service: in the animation data specification, and in the public definition. The two
 * differ on the wire only in this name.
 */
export const animationServices = {
  specified: 'neutral_ace.services.animation_data.v1.AnimationDataService',
  public: 'nvidia_ace.services.animation_data.v1.AnimationDataService',
} as const

/** Returns the methods of the service under its names, and the methods of server reflection. */
export function animationMethods(broker: Broker, options: { publicName: boolean }): readonly AnyMethod[] {
  const names = options.publicName
    ? [animationServices.specified, animationServices.public]
    : [animationServices.specified]
  return [
    ...names.flatMap(name => [pushMethod(name, broker), pullMethod(name, broker)]),
    ...reflectionMethods(names),
  ]
}

const identity = (bytes: Uint8Array) => bytes

function pushMethod(service: string, broker: Broker): Method<Uint8Array, Status> {
  return {
    path: `/${service}/PushAnimationDataStream`,
    kind: 'client-stream',
    decode: identity,
    encode: encodeStatus,
    handle(requests, call) {
      const push = broker.push(call)
      takeAll(requests, push)
      onAbort(call, reason => push.close(reason))
      return push.done
    },
  }
}

/** Passes the messages to the push. Reads none while the push waits for room, and none after its end. */
async function takeAll(requests: AsyncIterable<Uint8Array>, push: Push): Promise<void> {
  try {
    for await (const bytes of requests) {
      const room = push.take(bytes)
      if (room !== undefined) await room
      if (push.over) return
    }
    push.halfClose()
  } catch (error) {
    push.close(error instanceof GrpcError ? error : new GrpcError('INTERNAL', 'internal error'))
  }
}

function pullMethod(service: string, broker: Broker): Method<AnimationIds | GrpcError, Uint8Array> {
  return {
    path: `/${service}/PullAnimationDataStream`,
    kind: 'server-sink',
    decode: decodeIds,
    encode: identity,
    async handle(request: AnimationIds | GrpcError, call: Call, sink: MessageSink) {
      if (request instanceof GrpcError) throw request
      // The headers are sent now, since a matching request may come much later.
      call.sendHeaders(new Map())
      const pull = broker.pull(request, call, sink)
      onAbort(call, reason => pull.close(reason))
      await pull.done
    },
  }
}

/** Returns the error instead of throwing it: only a handler can end a call with a status. */
function decodeIds(bytes: Uint8Array): AnimationIds | GrpcError {
  try {
    return readAnimationIds(bytes)
  } catch (error) {
    if (!(error instanceof MalformedMessage || error instanceof IdTooLong)) throw error
    return new GrpcError('INVALID_ARGUMENT', `AnimationIds: ${error.message}`)
  }
}

function onAbort({ signal }: Call, end: (reason: GrpcError) => void): void {
  signal.addEventListener('abort', () => end(signal.reason), { once: true })
  if (signal.aborted) end(signal.reason)
}
