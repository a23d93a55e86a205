import { type ChildProcess, fork } from 'node:child_process'
import type { Direction } from '@tollway/grpc/http2/call-tap.ts'
import type { ComparisonReport } from './comparison.ts'
import type { ComparedFields } from './find-differences.ts'
import type { Peer } from './peer.ts'

/** The input of the process that calls the candidate, and the first message to it. */
export interface ShadowTask {
  readonly candidate: Peer
  /** The candidate reads the counters after the reference has counted in them. */
  readonly sharedCounters: boolean
  /** The timeout of each call of the candidate. */
  readonly timeoutMs: number
  readonly compared: ComparedFields
}

/**
 * Bytes of a connection, or its end; the time is that of the sending process. After `cut` the sending process
 * passes no more bytes of the connection.
 */
export interface Piece {
  readonly connection: number
  readonly atMs: number
  readonly read: { readonly direction: Direction; readonly bytes: Uint8Array } | 'end' | 'cut'
}

export type ToShadowProcess =
  | { readonly kind: 'pieces'; readonly pieces: readonly Piece[] }
  /** `cutBytes` is the sum of the bytes of connections after their cuts. */
  | { readonly kind: 'report'; readonly cutBytes: number }
  /** Waits for the candidate at most `graceMs`, answers with the report, and ends the process. */
  | { readonly kind: 'close'; readonly cutBytes: number; readonly graceMs: number }

export type FromShadowProcess =
  /** The first message to the parent. */
  | { readonly kind: 'ready' }
  /** The bytes of pieces that the process has read. */
  | { readonly kind: 'taken'; readonly bytes: number }
  | { readonly kind: 'report'; readonly report: ComparisonReport }
  | { readonly kind: 'defect'; readonly text: string }

/** The bytes that may wait for the process. The rest of a connection that exceeds it is not compared. */
const maxWaitingBytes = 32 * 1024 * 1024

/** The bytes of one connection, on their way to the process. */
export interface ConnectionFeed {
  /** Copies the bytes in a later turn of the event loop. */
  add(direction: Direction, bytes: Uint8Array): void
  end(): void
}

/** The bytes of this time go to the process together, since each message costs the event loop some time. */
const batchMs = 5

/** The process that reads calls and sends them to the candidate. */
interface ShadowFeed {
  open(): ConnectionFeed
  /** Rejects if the process has failed. */
  report(): Promise<ComparisonReport>
  /**
   * Waits for the calls of the candidate, at most this long, and ends the process. Rejects if the
   * process has failed.
   */
  close(graceMs: number): Promise<ComparisonReport>
}

/**
 * The garbage collector of the process stays on the thread that allocates, and collects little at a time: its
 * helper threads, and long collections, would take a core that the forwarding process waits for.
 */
const collectorOptions = ['--single-threaded-gc', '--max-semi-space-size=1']

/** Starts the process that `startShadowFeed` uses. It ends with this one. */
export function startShadowProcess(task: ShadowTask): ChildProcess {
  const child = fork(new URL('./shadow-process.ts', import.meta.url), {
    execArgv: collectorOptions,
    serialization: 'advanced',
  })
  child.send(task)
  return child
}

/**
 * Resolves when the process reads. If the process fails later, its comparison is lost, and the bytes of
 * connections are dropped.
 *
 * @param onDefect receives errors of the process, and of what it could not read or call
 */
export async function startShadowFeed(
  child: ChildProcess,
  onDefect: (error: unknown) => void,
): Promise<ShadowFeed> {
  const waiters: PromiseWithResolvers<ComparisonReport>[] = []
  let pieces: Piece[] = []
  let batch: NodeJS.Timeout | undefined
  let waitingBytes = 0
  let connections = 0
  let cutBytes = 0
  let failure: Error | undefined

  const ended = Promise.withResolvers<Error>()
  const endWith = (reason: string) => ended.resolve(new Error(`the comparison has failed: ${reason}`))
  child.once('exit', (code, signal) => endWith(`its process has ended with ${signal ?? `code ${code}`}`))
  child.on('error', ({ message }) => endWith(message))
  await new Promise((resolve, reject) => {
    child.once('message', resolve)
    ended.promise.then(reject)
  })
  child.on('message', (message: FromShadowProcess) => {
    if (message.kind === 'taken') waitingBytes -= message.bytes
    else if (message.kind === 'defect') onDefect(message.text)
    else if (message.kind === 'report') waiters.shift()?.resolve(message.report)
  })
  let closing = false
  ended.promise.then(fail)
  // The process has ended if it receives no message.
  const post = (message: ToShadowProcess) => child.send(message, () => {})

  function fail(error: Error): void {
    if (failure !== undefined || (closing && waiters.length === 0)) return
    failure = error
    onDefect(`${error.message}; calls still go to the reference`)
    pieces = []
    for (const { reject } of waiters.splice(0)) reject(error)
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

  async function ask(message: ToShadowProcess): Promise<ComparisonReport> {
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
            onDefect(`compare calls of a connection: stopped, ${waitingBytes} bytes wait for the comparison`)
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
      await ended.promise
      return report
    },
  }
}
