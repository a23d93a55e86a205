import {
  dataBytes,
  dataMessage,
  headerMessage,
  isData,
  isStatus,
  lastStatus,
  numberOf,
  pullRequest,
  sentMsOf,
} from './animation-messages.ts'
import { createRecorder, type Recorder } from './recorder.ts'
import type { StreamConnection } from './stream-connection.ts'

/** The messages that all consumers of a load received in one round. */
export interface Tally {
  deliveries: number
  /** The time of the last one. */
  lastMs: number
  lost: number
  latencies: Recorder
}

export const emptyTally = (): Tally => ({ deliveries: 0, lastMs: 0, lost: 0, latencies: createRecorder() })

export interface Consumer {
  /** The number of messages of its stream up to the last received one. */
  readonly got: number
  /** Whether it has received a status and then the end. */
  readonly isOver: boolean
}

/**
 * Starts a pull, which counts its messages. It may start late: messages before its first one are not lost.
 */
export function createConsumer(connection: StreamConnection, id: string, tally: Tally): Consumer {
  let got = 0
  let hasStatus = false
  let isOver = false
  const stream = connection.begin({
    onMessage(buffer, start, end) {
      if (isData(buffer, start, end)) {
        const number = numberOf(buffer, start)
        if (got > 0) tally.lost += number - got
        got = number + 1
        tally.deliveries += 1
        tally.lastMs = performance.now()
        tally.latencies.record(tally.lastMs - sentMsOf(buffer, start))
      } else if (isStatus(buffer, start)) hasStatus = true
    },
    onEnd() {
      isOver = hasStatus
    },
    onRoom() {},
  })
  stream.send(pullRequest(id))
  stream.end()
  return {
    get got() {
      return got
    },
    get isOver() {
      return isOver
    },
  }
}

export interface Producer {
  readonly sent: number
  send(dueMs: number): void
  /** Sends as much as the server accepts until this time. */
  flood(untilMs: number, onDone: () => void): void
  end(): void
}

/** Starts a push, with its header. */
export function createProducer(connection: StreamConnection, id: string): Producer {
  let sent = 0
  let onRoom = () => {}
  const stream = connection.begin({ onMessage() {}, onEnd() {}, onRoom: () => onRoom() })
  stream.send(headerMessage(id))

  function send(dueMs: number): void {
    stream.send(dataMessage(sent, dueMs))
    sent += 1
  }

  return {
    get sent() {
      return sent
    },
    send,
    flood(untilMs, onDone) {
      onRoom = () => {
        while (stream.hasRoom(dataBytes)) {
          const nowMs = performance.now()
          if (nowMs > untilMs) {
            onRoom = () => {}
            return onDone()
          }
          send(nowMs)
        }
      }
      onRoom()
    },
    end() {
      stream.send(lastStatus())
      stream.end()
    },
  }
}
