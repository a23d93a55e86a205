import type { Clock } from '@tollway/chassis/clock.ts'
import { hashApiKey } from '@tollway/payments/domain/ids.ts'
import { attempt } from './obstacles.ts'
import type { Provisioned, Provisioner, ProvisionRejection, ProvisionRequest } from './provisioner.ts'

/** The last request of a merchant, and its answer. */
interface Sent {
  /** The digest of the request, so that secrets of webhooks are not kept in memory. */
  readonly digest: string
  readonly atMs: number
  readonly ids: Provisioned
}

/** The requests to the payments service. An unchanged one is sent again only after `resyncMs`. */
export class SentRequests {
  readonly #clock: Clock
  readonly #resyncMs: number
  readonly #sent = new Map<string, Sent>()

  constructor(clock: Clock, resyncMs: number) {
    this.#clock = clock
    this.#resyncMs = resyncMs
  }

  /** Sends the request of the merchant with this uid, unless it was sent before. */
  async send(
    provisioner: Provisioner,
    uid: string,
    request: ProvisionRequest,
    signal: AbortSignal,
  ): Promise<Provisioned | ProvisionRejection> {
    const before = this.#sent.get(uid)
    const digest = hashApiKey(JSON.stringify(request))
    const nowMs = this.#clock.monotonicMs()
    if (before?.digest === digest && nowMs - before.atMs < this.#resyncMs) return before.ids
    const answer = await attempt('PaymentsUnreachable', () => provisioner.provision(uid, request, signal))
    if ('rejected' in answer) this.#sent.delete(uid)
    else this.#sent.set(uid, { digest, atMs: nowMs, ids: answer })
    return answer
  }

  /** Returns the ids of the merchant; undefined if they are not known. */
  idsOf(uid: string): Provisioned | undefined {
    return this.#sent.get(uid)?.ids
  }

  forget(uid: string): void {
    this.#sent.delete(uid)
  }
}
