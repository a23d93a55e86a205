import { setTimeout as pause } from 'node:timers/promises'
import {
  type AnimationClient,
  openAnimationClient,
  type PullCall,
} from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import type { Cleanup } from '../support/tollway.ts'

/** Continues at the next broker when a call fails. */
export interface ResumingClient {
  /**
   * Pushes a header, the numbers from 1 to `count`, and a status. Resolves with the answer of the last call.
   */
  produce(requestId: string, count: number, everyMs: number): Promise<Produced>
  /** Until the end of the request. */
  consume(requestId: string): Promise<Consumed>
}

export interface Produced {
  readonly answer: string
  readonly acceptedAfterMs: number
}

export interface Consumed {
  readonly numbers: readonly number[]
  /** Statuses of the broker about missing messages. */
  readonly gaps: readonly string[]
  readonly status: string
  /** From each lost call to the first message of the next one. */
  readonly pausesMs: readonly number[]
}

const maxAttempts = 400
const retryMs = 10
const retriedAnswers = /^(UNAVAILABLE|ABORTED|ALREADY_EXISTS|NOT_FOUND)/

/** @param first the index of the broker of the first call */
export function openResumingClient(t: Cleanup, addresses: readonly string[], first = 0): ResumingClient {
  const clients = addresses.map(address => openAnimationClient(t, address))
  let at = first
  const client = () => clients[at % clients.length] as AnimationClient
  return {
    async produce(requestId, count, everyMs) {
      const began = performance.now()
      let token: string | undefined
      let acceptedAfterMs: number | undefined
      for (let attempt = 0; ; attempt += 1) {
        const push = client().push(token === undefined ? {} : { 'tollway-resume': token })
        let answer: string | undefined
        void push.answer.then(answered => (answer = answered))
        if (token === undefined) push.write(encodeText('header', requestId))
        const headers = await Promise.race([push.headers, push.answer.then(() => undefined)])
        if (headers !== undefined) {
          acceptedAfterMs ??= performance.now() - began
          token = headers['tollway-resume']
          let next = Number(headers['tollway-next'])
          for (; next <= count && answer === undefined; next += 1) {
            push.write(encodeText(`${next}`))
            await pause(everyMs)
          }
          if (next === count + 1) push.write(encodeText('SUCCESS'))
          push.end()
        }
        const last = await push.answer
        if (!retriedAnswers.test(last) || attempt === maxAttempts) {
          return { answer: last, acceptedAfterMs: acceptedAfterMs ?? Number.NaN }
        }
        at += 1
        await pause(retryMs)
      }
    },
    async consume(requestId) {
      const received = new Received()
      for (let attempt = 0; ; attempt += 1) {
        const pull = client().pull({ requestId }, { 'tollway-received': received.position() })
        const end = await received.takeAll(pull)
        if (end === 'OK') return received
        if (!retriedAnswers.test(end) || attempt === maxAttempts)
          throw new Error(`pull of ${requestId}: ${end}`)
        at += 1
        await pause(retryMs)
      }
    },
  }
}

/** Counts messages for a resume as the documentation of the broker says. */
class Received implements Consumed {
  readonly numbers: number[] = []
  readonly gaps: string[] = []
  readonly pausesMs: number[] = []
  status = ''
  #run: string | undefined
  #count = 0
  #lostMs: number | undefined

  position(): string {
    return this.#run === undefined ? 'none' : `${this.#run}=${this.#count}`
  }

  /** Resolves with the end of the call. */
  async takeAll(pull: PullCall): Promise<string> {
    let end: string | undefined
    void pull.end.then(ended => (end = ended))
    for (let taken = 0; ; ) {
      const over = end
      const texts = pull.texts().slice(taken)
      taken += texts.length
      for (const text of texts) this.#take(text)
      if (over !== undefined && texts.length === 0) {
        this.#lostMs = performance.now()
        return over
      }
      await pause(2)
    }
  }

  #take(text: string): void {
    if (this.#lostMs !== undefined) this.pausesMs.push(performance.now() - this.#lostMs)
    this.#lostMs = undefined
    const run = /^INFO run (\S+), the next is message (\d+)$/.exec(text)
    const next = /the next is message (\d+)$/.exec(text)
    if (run !== null) {
      this.#run = run[1]
      this.#count = Number(run[2])
    } else if (next !== null) {
      this.gaps.push(text)
      this.#count = Number(next[1])
    } else if (/^\d+$/.test(text)) {
      this.numbers.push(Number(text))
      this.#count += 1
    } else if (!text.startsWith('header')) this.status = text
  }
}

/** What is wrong with the received numbers from 1 to `count`; undefined if nothing is. */
export function findLoss({ numbers, gaps, status }: Consumed, count: number): string | undefined {
  if (gaps.length > 0) return `was notified of ${gaps.join('; ')}`
  const wrong = numbers.findIndex((number, index) => number !== index + 1)
  if (wrong !== -1) return `got ${numbers[wrong]} as number ${wrong + 1}`
  if (numbers.length !== count) return `got ${numbers.length} of ${count}`
  return status === 'SUCCESS' ? undefined : `got ${status}`
}
