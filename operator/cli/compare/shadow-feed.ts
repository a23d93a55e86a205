import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Direction } from '@tollway/grpc/http2/call-tap.ts'
import type { ComparisonReport } from './comparison.ts'
import type { FromShadowThread, Piece, ShadowTask, ToShadowThread } from './shadow-messages.ts'

/** The bytes that may wait for the thread. A connection that exceeds it is not read any more. */
const maxWaitingBytes = 32 * 1024 * 1024

/** The bytes of one connection, on their way to the thread. */
export interface ConnectionFeed {
  /** Copies the bytes in a later turn of the event loop. */
  add(direction: Direction, bytes: Uint8Array): void
  end(): void
}

/** The thread that reads calls and sends them to the candidate. */
export interface ShadowFeed {
  open(): ConnectionFeed
  report(): Promise<ComparisonReport>
  /** Waits for the calls of the candidate, at most this long, and ends the thread. */
  close(graceMs: number): Promise<ComparisonReport>
}

/**
 * Resolves when the thread reads.
 *
 * @param onDefect receives what the thread could not read or call
 */
export async function startShadowFeed(
  task: ShadowTask,
  onDefect: (error: unknown) => void,
): Promise<ShadowFeed> {
  const thread = new Worker(new URL('./shadow-thread.ts', import.meta.url), { workerData: task })
  const waiters: ((report: ComparisonReport) => void)[] = []
  let pieces: Piece[] = []
  let waitingBytes = 0
  let connections = 0

  await once(thread, 'message')
  thread.on('message', (message: FromShadowThread) => {
    if (message.kind === 'taken') waitingBytes -= message.bytes
    else if (message.kind === 'defect') onDefect(message.text)
    else if (message.kind === 'report') waiters.shift()?.(message.report)
  })
  thread.on('error', onDefect)
  const post = (message: ToShadowThread) => thread.postMessage(message)

  function flush(): void {
    if (pieces.length === 0) return
    post({ kind: 'pieces', pieces })
    pieces = []
  }

  function add(piece: Piece): void {
    pieces.push(piece)
    if (pieces.length === 1) setImmediate(flush)
  }

  function ask(message: ToShadowThread): Promise<ComparisonReport> {
    flush()
    const { promise, resolve } = Promise.withResolvers<ComparisonReport>()
    waiters.push(resolve)
    post(message)
    return promise
  }

  return {
    open() {
      connections += 1
      const connection = connections
      let open = true
      function end(): void {
        if (open) add({ connection, atMs: performance.now(), read: 'end' })
        open = false
      }
      return {
        end,
        add(direction, bytes) {
          if (!open) return
          if (waitingBytes + bytes.length > maxWaitingBytes) {
            onDefect(`compare calls of a connection: stopped, ${waitingBytes} bytes wait for the thread`)
            end()
            return
          }
          waitingBytes += bytes.length
          add({ connection, atMs: performance.now(), read: { direction, bytes } })
        },
      }
    },
    report: () => ask({ kind: 'report' }),
    async close(graceMs) {
      const ended = once(thread, 'exit')
      const report = await ask({ kind: 'close', graceMs })
      await ended
      return report
    },
  }
}
