import type { Duplex } from 'node:stream'
import { STATUS_CODES } from '../net/node-http.ts'
import type { HeldMemory, RequestMemory } from '../request-memory.ts'
import { answerHead, type Http1Answer, mayHaveBody } from './answer.ts'
import type { Http1Limits } from './limits.ts'
import { Output } from './output.ts'
import { Refusal } from './refusal.ts'
import type { RequestHead } from './requests/header-cache.ts'
import type { Http1Request, ParsedRequest } from './requests/request.ts'
import { type ParserPhase, RequestParser } from './requests/request-parser.ts'

/** The state that all connections of a server share. */
export interface ConnectionContext {
  readonly limits: Http1Limits
  /** Limits the memory of unfinished requests; requests beyond it are answered with 503. */
  readonly memory: RequestMemory
  handle(request: Http1Request): Http1Answer | Promise<Http1Answer>
  /** The answer to a request whose body is too long. */
  readonly bodyTooLong: Http1Answer | undefined
  onDefect(path: string, error: unknown): void
  /** Returns whether connections should be closed with their next answer. */
  closing(): boolean
  dateLine(): string
  /** Returns the time of the last sweep, in milliseconds from an arbitrary start. */
  sweptMs(): number
}

/** A request that runs, or whose answer waits for an earlier one. */
interface Work {
  readonly request: AnsweredRequest
  answer: Http1Answer | undefined
}

/** The parts of a request that its answer needs. */
interface AnsweredRequest {
  readonly head: Pick<RequestHead, 'method' | 'closes' | 'asksToKeep'>
  readonly path: string
}

const continueText = 'HTTP/1.1 100 Continue\r\n\r\n'
const plainText = {
  'Content-Type': 'text/plain; charset=utf-8',
  'X-Content-Type-Options': 'nosniff',
}
const internalError: Http1Answer = { head: answerHead(500, plainText), body: 'Internal Server Error\n' }
const noMemoryLeft = new Refusal(503, 'no memory is left for unfinished requests')
const refusedRequest: AnsweredRequest = {
  head: { method: 'GET', closes: true, asksToKeep: false },
  path: '',
}

/** Serves one connection; `onClosed` is called at its end. The socket must allow half-open connections. */
export class Connection {
  readonly #socket: Duplex
  readonly #context: ConnectionContext
  readonly #parser: RequestParser
  readonly #output: Output
  readonly #heldMemory: HeldMemory
  /** The work in the order of the requests, which is that of the answers. */
  readonly #work: Work[] = []
  /** No further request is served; running ones are still answered. */
  #last = false
  /** The client has closed its side. */
  #ended = false
  /** All requests are answered, and the server has closed its side. */
  #finished = false
  /** Reading is paused until there is room for answers. */
  #held = false
  #flush: NodeJS.Immediate | undefined
  #phase: ParserPhase = 'idle'
  /** The time of the sweep since which the phase lasts, or the connection is idle. */
  #sinceMs: number
  #unsentBytes = 0
  #unsentSinceMs = 0

  constructor(socket: Duplex, context: ConnectionContext, onClosed: (connection: Connection) => void) {
    this.#socket = socket
    this.#context = context
    this.#parser = new RequestParser(context.limits)
    this.#heldMemory = context.memory.open(() => this.#refuseUnfinished())
    this.#output = new Output(socket, () => this.#goOn())
    this.#sinceMs = context.sweptMs()
    socket.on('data', (chunk: Buffer) => this.#onData(chunk))
    socket.on('end', () => this.#onEnd())
    // The connection is closed after any error, which is all that must be handled.
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#last = true
      this.#finished = true
      clearImmediate(this.#flush)
      this.#heldMemory.resize(0)
      onClosed(this)
    })
  }

  /** Ends the connection if it has waited for too long. Times are those of `sweptMs`. */
  sweep(nowMs: number, idleTimeoutMs: number): void {
    const { limits } = this.#context
    if (this.#isStuck(nowMs)) {
      this.#socket.destroy()
      return
    }
    const quietMs = nowMs - this.#sinceMs
    if (this.#finished) {
      if (quietMs >= limits.lingerTimeoutMs) this.#socket.destroy()
      return
    }
    if (this.#last || this.#held) return
    if (this.#phase === 'head') {
      if (quietMs >= limits.headTimeoutMs) this.#refuse(new Refusal(408, 'the headers took too long'))
    } else if (this.#phase === 'body') {
      if (quietMs >= limits.bodyTimeoutMs) this.#refuse(new Refusal(408, 'the body took too long'))
    } else if (quietMs >= idleTimeoutMs && this.#work.length === 0) this.#socket.destroy()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #onData(chunk: Buffer): void {
    if (this.#last) return
    this.#parser.push(chunk)
    this.#serve()
  }

  /**
   * The client sends no more, but may wait for its answers, also to requests that were received while reading
   * was paused.
   */
  #onEnd(): void {
    this.#ended = true
    if (!this.#held) this.#onAllRead()
  }

  #onAllRead(): void {
    this.#last = true
    if (this.#work.length === 0) this.#finish()
  }

  /** Serves the received requests, as long as there is room for the answers. */
  #serve(): void {
    let served = false
    while (!this.#last && this.#hasRoom()) {
      const next = this.#parser.next()
      if (next === undefined) break
      served = true
      if (next instanceof Refusal) this.#refuse(next)
      else this.#begin(next)
    }
    this.#sendContinue()
    this.#output.flush()
    const phase = this.#parser.phase
    if (served || phase !== this.#phase) this.#sinceMs = this.#context.sweptMs()
    this.#phase = phase
    this.#heldMemory.resize(this.#last ? 0 : this.#parser.heldBytes)
    this.#holdOrRelease()
  }

  #hasRoom(): boolean {
    return this.#work.length < this.#context.limits.maxPipelined && this.#output.hasRoom
  }

  #holdOrRelease(): void {
    const hold = !this.#last && !this.#hasRoom()
    if (hold === this.#held) return
    this.#held = hold
    if (hold) {
      this.#socket.pause()
      return
    }
    this.#socket.resume()
    if (this.#ended) this.#onAllRead()
  }

  /** Continues after reading was paused. */
  #goOn(): void {
    if (this.#held && this.#hasRoom()) this.#serve()
  }

  #begin(request: ParsedRequest): void {
    if (request.head.closes) this.#last = true
    const answer = this.#ask(request)
    if (!(answer instanceof Promise)) this.#answer(request, answer)
    else {
      const work: Work = { request, answer: undefined }
      this.#work.push(work)
      answer.then(
        settled => this.#settle(work, settled),
        error => this.#settle(work, this.#defect(request.path, error)),
      )
    }
  }

  #ask(request: ParsedRequest): Http1Answer | Promise<Http1Answer> {
    try {
      return this.#context.handle(request)
    } catch (error) {
      return this.#defect(request.path, error)
    }
  }

  #refuse({ status, message }: Refusal): void {
    this.#last = true
    this.#parser.clear()
    this.#heldMemory.resize(0)
    const { bodyTooLong } = this.#context
    const body = `${STATUS_CODES[status] ?? status}: ${message}\n`
    const refusal = (status === 413 && bodyTooLong) || { head: answerHead(status, plainText), body }
    this.#answer(refusedRequest, refusal)
    this.#output.flush()
  }

  /** Requests after one that ends the connection are not parsed but dropped. */
  #refuseUnfinished(): void {
    if (this.#last) this.#parser.clear()
    else this.#refuse(noMemoryLeft)
  }

  #defect(path: string, error: unknown): Http1Answer {
    this.#context.onDefect(path, error)
    return internalError
  }

  /** Writes the answer at once, unless earlier answers are missing. */
  #answer(request: AnsweredRequest, answer: Http1Answer): void {
    if (this.#work.length > 0) this.#work.push({ request, answer })
    else this.#write(request, answer)
  }

  #settle(work: Work, answer: Http1Answer): void {
    if (this.#finished) return
    work.answer = answer
    if (work !== this.#work[0]) return
    for (let first = this.#work[0]; first?.answer !== undefined; first = this.#work[0]) {
      this.#work.shift()
      this.#write(first.request, first.answer)
    }
    if (this.#work.length > 0) this.#flush ??= setImmediate(this.#flushInTurn)
    else this.#onAllAnswered()
    this.#goOn()
  }

  /** Flushes, since no further answer can join the gathered ones. */
  #onAllAnswered(): void {
    this.#sinceMs = this.#context.sweptMs()
    this.#sendContinue()
    this.#output.flush()
  }

  readonly #flushInTurn = (): void => {
    this.#flush = undefined
    this.#output.flush()
  }

  #write(request: AnsweredRequest, answer: Http1Answer): void {
    const closes = request.head.closes || (this.#context.closing() && this.#nothingFollows())
    this.#encode(request, answer, closes)
    if (closes) this.#last = true
    if (this.#last && this.#work.length === 0) this.#finish()
  }

  #nothingFollows(): boolean {
    return this.#work.length === 0 && this.#parser.phase === 'idle'
  }

  #encode({ head: asked }: AnsweredRequest, answer: Http1Answer, closes: boolean): void {
    const { head, body = '' } = answer
    const bytes = typeof body === 'string' ? Buffer.byteLength(body) : body.length
    const connection = closes ? 'Connection: close\r\n' : asked.asksToKeep ? 'Connection: keep-alive\r\n' : ''
    const length = mayHaveBody(head.status) ? `Content-Length: ${bytes}\r\n` : ''
    const lines = `${head.lines}${connection}${this.#context.dateLine()}${length}\r\n`
    if (asked.method === 'HEAD' || bytes === 0 || length === '') this.#output.addText(lines, true)
    else if (typeof body === 'string') this.#output.addText(lines + body, bytes === body.length)
    else {
      this.#output.addText(lines, true)
      this.#output.addBytes(body)
    }
  }

  #sendContinue(): void {
    if (!this.#last && this.#work.length === 0 && this.#parser.takeContinue()) {
      this.#output.addText(continueText, true)
    }
  }

  /**
   * Closes the server's side. Bytes that the client still sends are read and dropped for a while: if the
   * kernel rejected them, the client might lose the answer too (RFC 9112, 9.6).
   */
  #finish(): void {
    if (this.#finished) return
    this.#finished = true
    this.#sinceMs = this.#context.sweptMs()
    this.#output.flush()
    this.#socket.end()
    this.#socket.resume()
  }

  #isStuck(nowMs: number): boolean {
    const unsentBytes = this.#socket.writableLength
    if (unsentBytes === 0 || unsentBytes !== this.#unsentBytes) {
      this.#unsentBytes = unsentBytes
      this.#unsentSinceMs = nowMs
      return false
    }
    return nowMs - this.#unsentSinceMs >= this.#context.limits.writeTimeoutMs
  }
}
