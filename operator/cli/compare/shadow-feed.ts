import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Direction } from '@tollway/grpc/http2/call-tap.ts'
import type { ComparisonReport } from './comparison.ts'
import type { FromShadowThread, Piece, ShadowTask, ToShadowThread } from './shadow-messages.ts'

/** The bytes that may wait for the thread. The rest of a connection that exceeds it is not compared. */
const maxWaitingBytes = 32 * 1024 * 1024

/** The bytes of one connection, on their way to the thread. */
export interface ConnectionFeed {
  /** Copies the bytes in a later turn of the event loop. */
  add(direction: Direction, bytes: Uint8Array): void
  end(): void
}

/** The bytes of this time go to the thread together, since each message costs the event loop some time. */
const batchMs = 5

/** The thread that reads calls and sends them to the candidate. */
export interface ShadowFeed {
  open(): ConnectionFeed
  /** Rejects if the thread has failed. */
  report(): Promise<ComparisonReport>
  /**
   * Waits for the calls of the candidate, at most this long, and ends the thread. Rejects if the thread has
   * failed.
   */
  close(graceMs: number): Promise<ComparisonReport>
}

/** Starts the thread that `startShadowFeed` uses. */
export function startShadowThread(task: ShadowTask): Worker {
  return new Worker(new URL('./shadow-thread.ts', import.meta.url), { workerData: task })
}

/**
 * Resolves when the thread reads. If the thread fails later, its comparison is lost, and the bytes of
 * connections are dropped.
 *
 * @param onDefect receives errors of the thread, and of what it could not read or call
 */
export async function startShadowFeed(
  thread: Worker,
  onDefect: (error: unknown) => void,
): Promise<ShadowFeed> {
  const waiters: PromiseWithResolvers<ComparisonReport>[] = []
  let pieces: Piece[] = []
  let batch: NodeJS.Timeout | undefined
  let waitingBytes = 0
  let connections = 0
  let cutBytes = 0
  let failure: Error | undefined

  await once(thread, 'message')
  thread.on('message', (message: FromShadowThread) => {
    if (message.kind === 'taken') waitingBytes -= message.bytes
    else if (message.kind === 'defect') onDefect(message.text)
    else if (message.kind === 'report') waiters.shift()?.resolve(message.report)
  })
  const exited = new Promise<void>(resolve => thread.once('exit', resolve))
  let closing = false
  thread.once('error', fail)
  thread.once('exit', () => fail(new Error('its thread has ended')))
  const post = (message: ToShadowThread) => thread.postMessage(message)

  function fail({ message }: Error): void {
    if (failure !== undefined || (closing && waiters.length === 0)) return
    failure = new Error(`the comparison has failed: ${message}`)
    onDefect(`${failure.message}; calls still go to the reference`)
    pieces = []
    for (const { reject } of waiters.splice(0)) reject(failure)
  }

  function flush(): void {
    clearTimeout(batch)
    batch = undefined
    if (pieces.length === 0) return
    post({ kind: 'pieces', pieces })
    pieces = []
  }

  function add(piece: Piece): void {
    if (failure !== undefined) return
    pieces.push(piece)
    batch ??= setTimeout(flush, batchMs)
  }

  async function ask(message: ToShadowThread): Promise<ComparisonReport> {
    if (failure !== undefined) throw failure
    flush()
    const waiter = Promise.withResolvers<ComparisonReport>()
    waiters.push(waiter)
    post(message)
    return waiter.promise
  }

  return {
    open() {
      connections += 1
      const connection = connections
      let open = true
      function end(read: 'end' | 'cut'): void {
        if (open) add({ connection, atMs: performance.now(), read })
        open = false
      }
      return {
        end: () => end('end'),
        add(direction, bytes) {
          if (failure !== undefined) return
          if (open && waitingBytes + bytes.length > maxWaitingBytes) {
            onDefect(`compare calls of a connection: stopped, ${waitingBytes} bytes wait for the thread`)
            end('cut')
          }
          if (!open) {
            cutBytes += bytes.length
            return
          }
          waitingBytes += bytes.length
          add({ connection, atMs: performance.now(), read: { direction, bytes } })
        },
      }
    },
    report: () => ask({ kind: 'report', cutBytes }),
    async close(graceMs) {
      closing = true
      const report = await ask({ kind: 'close', cutBytes, graceMs })
      await exited
      return report
    },
  }
}
