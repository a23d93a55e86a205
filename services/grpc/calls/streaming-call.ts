import { systemClock } from '@tollway/chassis/clock.ts'
import type { Stream, StreamListener } from '../http2/streams/stream.ts'
import { healthWatchPath } from '../server/health.ts'
import { statusCodes } from '../status.ts'
import type { CallContext, CallHead } from './call-context.ts'
import { acceptEncoding, acceptFields } from './compression.ts'
import { RequestIntake } from './request-intake.ts'
import { type CallWire, StreamCall } from './stream-call.ts'
import {
  encodeResponseHeaders,
  encodeTrailers,
  encodeTrailersOnly,
  type WireStatus,
} from './wire-metadata.ts'

/** Begins a call of any kind but unary: `StreamCall` runs it over an HTTP/2 stream. */
export function beginStreamingCall(context: CallContext, head: CallHead, stream: Stream): StreamListener {
  const { method } = head
  const isWatch = method.path === healthWatchPath
  const answer = createAnswer(stream, acceptFields(head.compression))
  const intake = new RequestIntake(context, head, stream)
  const wire: CallWire = {
    metadata: head.metadata,
    peer: context.peer,
    peerCertificate: context.peerCertificate,
    deadlineMs: head.timeoutMs === undefined ? undefined : systemClock.monotonicMs() + head.timeoutMs,
    read: () => intake.read(),
    ...answer,
  }
  const call = new StreamCall(method, wire, {
    maxSendBytes: context.limits.maxSendBytes,
    onDefect: context.onDefect,
    onEnd() {
      intake.drop()
      context.calls.delete(call, isWatch)
      stream.release()
    },
  })
  context.calls.add(call, isWatch)
  intake.start(call)
  return {
    onData: (buffer, start, end) => intake.push(buffer.subarray(start, end)),
    onEnd: () => intake.end(),
    onTaken: () => call.taken(),
    onReset: isCancelled => call.disconnect(isCancelled),
    onTurnEnd() {},
  }
}

function createAnswer(
  stream: Stream,
  accepted: ReturnType<typeof acceptFields>,
): Pick<
  CallWire,
  'sendHeaders' | 'sendMessage' | 'sendParts' | 'queuedBytes' | 'discardQueued' | 'sendStatus'
> {
  let headersSent = false

  function sendHeaders(block: Buffer): void {
    headersSent = true
    stream.sendHeaders(block)
  }

  function statusBlock(status: WireStatus): Buffer {
    if (headersSent) return encodeTrailers(status)
    const unsupported = status.code === statusCodes.UNIMPLEMENTED
    return encodeTrailersOnly(status, unsupported ? [acceptEncoding] : [])
  }

  return {
    sendHeaders(metadata) {
      if (headersSent) throw new Error('the headers are sent already')
      sendHeaders(encodeResponseHeaders(metadata, accepted))
    },
    sendMessage(bytes) {
      if (!headersSent) sendHeaders(encodeResponseHeaders(undefined, accepted))
      stream.sendMessage(bytes)
    },
    sendParts(parts) {
      if (!headersSent) sendHeaders(encodeResponseHeaders(undefined, accepted))
      stream.sendParts(parts)
    },
    queuedBytes: () => stream.queuedBytes,
    discardQueued: () => stream.discardQueued(),
    sendStatus: status => stream.endEarly(statusBlock(status)),
  }
}
