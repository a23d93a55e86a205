import { type ChildProcess, fork } from 'node:child_process'
import type { Direction } from '@tollway/grpc/http2/call-tap.ts'
import type { ComparisonReport } from './comparison.ts'
import type { ComparedFields } from './find-differences.ts'
import type { Peer } from './peer.ts'

export interface ShadowTask {
  readonly candidate: Peer
  /**
   * Whether both services use the same counters. The candidate only reads them, after the reference has
   * counted.
   */
  readonly sharedCounters: boolean
  /** The timeout of each call of the candidate. */
  readonly timeoutMs: number
  readonly compared: ComparedFields
}

/** Bytes of a connection, with the time at the sending process. After `cut`, no more bytes are sent. */
export interface Piece {
  readonly connection: number
  readonly atMs: number
  readonly read: { readonly direction: Direction; readonly bytes: Uint8Array } | 'end' | 'cut'
}

export type ToShadowProcess =
  | { readonly kind: 'pieces'; readonly pieces: readonly Piece[] }
  /** `cutBytes` are the bytes that connections have forwarded since they were cut. */
  | { readonly kind: 'report'; readonly cutBytes: number }
  /** The process waits at most `graceMs` for the candidate, answers with the report, and ends. */
  | { readonly kind: 'close'; readonly cutBytes: number; readonly graceMs: number }

export type FromShadowProcess =
  /** Sent first, when the process can read pieces. */
  | { readonly kind: 'ready' }
  /** The number of bytes of pieces that the process has read. */
  | { readonly kind: 'taken'; readonly bytes: number }
  | { readonly kind: 'report'; readonly report: ComparisonReport }
  | { readonly kind: 'defect'; readonly text: string }

/** Beyond this number of bytes that wait for the process, the connection is cut. */
const maxWaitingBytes = 32 * 1024 * 1024
/** Bytes of this time are one message, because each message takes time of the event loop. */
const batchMs = 5

/** Keeps the garbage collector from taking a core from the process that forwards bytes. */
const collectorOptions = ['--single-threaded-gc', '--max-semi-space-size=1']

/** The child ends with this process. */
export function startShadowProcess(task: ShadowTask): ChildProcess {
  const child = fork(new URL('./shadow-process.ts', import.meta.url), {
    execArgv: collectorOptions,
    serialization: 'advanced',
  })
  child.send(task)
  return child
}

/** Copies the bytes of connections to the child process that reads the calls in them. */
export class ShadowFeed {
  readonly #child: ChildProcess
  readonly #ended: Promise<Error>
  readonly #onDefect: (error: unknown) => void
  readonly #waiters: PromiseWithResolvers<ComparisonReport>[] = []
  #pieces: Piece[] = []
  #batch: NodeJS.Timeout | undefined
  #waitingBytes = 0
  #connections = 0
  #cutBytes = 0
  #isClosing = false
  #failure: Error | undefined

  /**
   * Resolves when the process is ready. If the process fails later, the comparison is lost, and copies are
   * dropped.
   *
   * @param onDefect receives the errors of the process, and of the calls that it could not read or make
   */
  static async start(child: ChildProcess, onDefect: (error: unknown) => void): Promise<ShadowFeed> {
    const ended = Promise.withResolvers<Error>()
    const endWith = (reason: string) => ended.resolve(new Error(`the comparison has failed: ${reason}`))
    child.once('exit', (code, signal) => endWith(`its process has ended with ${signal ?? `code ${code}`}`))
    child.on('error', ({ message }) => endWith(message))
    await new Promise((resolve, reject) => {
      child.once('message', resolve)
      ended.promise.then(reject)
    })
    return new ShadowFeed(child, ended.promise, onDefect)
  }

  /** @param ended resolves with the cause when the process ends */
  constructor(child: ChildProcess, ended: Promise<Error>, onDefect: (error: unknown) => void) {
    this.#child = child
    this.#ended = ended
    this.#onDefect = onDefect
    child.on('message', (message: FromShadowProcess) => {
      if (message.kind === 'taken') this.#waitingBytes -= message.bytes
      else if (message.kind === 'defect') onDefect(message.text)
      else if (message.kind === 'report') this.#waiters.shift()?.resolve(message.report)
    })
    ended.then(error => this.#fail(error))
  }

  /** Opens the copy of a connection. `add` copies the bytes in a later turn of the event loop. */
  open() {
    this.#connections += 1
    const connection = this.#connections
    let isOpen = true
    const end = (read: 'end' | 'cut') => {
      if (isOpen) this.#add({ connection, atMs: performance.now(), read })
      isOpen = false
    }
    return {
      end: () => end('end'),
      add: (direction: Direction, bytes: Uint8Array) => {
        if (this.#failure !== undefined) return
        if (isOpen && this.#waitingBytes + bytes.length > maxWaitingBytes) {
          const cause = `${this.#waitingBytes} bytes wait for the comparison`
          this.#onDefect(`compare calls of a connection: stopped, ${cause}`)
          end('cut')
        }
        if (!isOpen) {
          this.#cutBytes += bytes.length
          return
        }
        this.#waitingBytes += bytes.length
        this.#add({ connection, atMs: performance.now(), read: { direction, bytes } })
      },
    }
  }

  /** Rejects if the process has failed. */
  report(): Promise<ComparisonReport> {
    return this.#request({ kind: 'report', cutBytes: this.#cutBytes })
  }

  /** Waits at most `graceMs` for the candidate. Rejects if the process has failed. */
  async close(graceMs: number): Promise<ComparisonReport> {
    this.#isClosing = true
    const report = await this.#request({ kind: 'close', cutBytes: this.#cutBytes, graceMs })
    await this.#ended
    return report
  }

  #fail(error: Error): void {
    if (this.#failure !== undefined || (this.#isClosing && this.#waiters.length === 0)) return
    this.#failure = error
    this.#onDefect(`${error.message}; calls still go to the reference`)
    this.#pieces = []
    for (const { reject } of this.#waiters.splice(0)) reject(error)
  }

  #add(piece: Piece): void {
    if (this.#failure !== undefined) return
    this.#pieces.push(piece)
    this.#batch ??= setTimeout(() => this.#flush(), batchMs)
  }

  #flush(): void {
    clearTimeout(this.#batch)
    this.#batch = undefined
    if (this.#pieces.length === 0) return
    this.#post({ kind: 'pieces', pieces: this.#pieces })
    this.#pieces = []
  }

  async #request(message: ToShadowProcess): Promise<ComparisonReport> {
    if (this.#failure !== undefined) throw this.#failure
    this.#flush()
    const waiter = Promise.withResolvers<ComparisonReport>()
    this.#waiters.push(waiter)
    this.#post(message)
    return waiter.promise
  }

  /** An error means that the process has ended, which `ended` reports. */
  #post(message: ToShadowProcess): void {
    this.#child.send(message, () => {})
  }
}

export type ShadowConnection = ReturnType<ShadowFeed['open']>
