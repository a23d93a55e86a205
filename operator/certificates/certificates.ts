import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createWakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'
import type { LeafName } from './certificate-state.ts'
import { checkForeignLeaves } from './check-foreign-leaves.ts'
import { createHeldCredentials } from './held-credentials.ts'
import { type CertificateTiming, checkTiming, defaultCertificateTiming, plan } from './plan.ts'
import { type LeafSpec, readCredentials, readSecrets, type SecretContents } from './secret-content.ts'
import type { SecretStore, StoredSecret } from './secret-store.ts'
import { writeAction } from './write-action.ts'

export interface CertificatesOptions {
  readonly store: SecretStore
  /** The names of the three Secrets. */
  readonly secretNames: Readonly<Record<keyof StoredSecrets, string>>
  /** The DNS names of each leaf; the first one is its common name. */
  readonly dnsNames: Readonly<Record<LeafName, readonly string[]>>
  /** The program that creates and renews the certificates; `operator` by default. */
  readonly issuer?: 'operator' | 'other'
  /** Whether this operator leads. Checked before each write. */
  readonly mayWrite: () => boolean
  readonly clock: Clock
  readonly log: Log
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly timing?: Partial<CertificatesTiming>
}

export interface CertificatesTiming extends CertificateTiming {
  /** The time between two reads of the Secrets, in case a call of `checkNow` for a change was lost. */
  readonly checkEveryMs: number
  /** The time between two reads while there is no certificate. */
  readonly firstCheckEveryMs: number
  /** The longest wait before a failed check is repeated. */
  readonly longestRetryMs: number
  /** The time limit of a call of the store. */
  readonly storeTimeoutMs: number
}

/** The read content of each Secret. */
export interface StoredSecrets {
  readonly authority: StoredSecret | undefined
  readonly server: StoredSecret | undefined
  readonly client: StoredSecret | undefined
}

export const defaultCertificatesTiming: CertificatesTiming = {
  ...defaultCertificateTiming,
  checkEveryMs: 600_000,
  firstCheckEveryMs: 1_000,
  longestRetryMs: 30_000,
  storeTimeoutMs: 10_000,
}

/** More writes than any state needs. Beyond them, another program undoes the writes. */
const maxWritesPerCheck = 20

/**
 * The certificates by which operators and pods authenticate each other. Every operator reads the Secret of
 * the operators' leaf, and uses it for later handshakes; the leader creates and renews the three Secrets.
 * With another issuer no operator writes, and each one reports the problems of both leaves.
 */
export class Certificates {
  /** Requires that callers show a certificate of the same authority. */
  readonly serverTls: ServerTls
  readonly #options: CertificatesOptions
  readonly #timing: CertificatesTiming
  readonly #leafSpecs: Readonly<Record<LeafName, LeafSpec>>
  readonly #held = createHeldCredentials()
  readonly #problems: Problems
  readonly #stopped = new AbortController()
  readonly #pause = createWakeablePause()
  readonly #backoff: Backoff
  #running: Promise<void> = Promise.resolve()

  /** @throws Error for times that cannot work together. */
  constructor(options: CertificatesOptions) {
    this.#options = options
    this.#timing = { ...defaultCertificatesTiming, ...options.timing }
    checkTiming(this.#timing)
    this.#leafSpecs = {
      // Operators call each other, too.
      server: { dnsNames: options.dnsNames.server, usage: ['server', 'client'] },
      // The operator calls some of its pods.
      client: { dnsNames: options.dnsNames.client, usage: ['client', 'server'] },
    }
    this.#problems = new Problems(options.log)
    const { firstCheckEveryMs: initialMs, longestRetryMs: maxMs } = this.#timing
    this.#backoff = createBackoff({ initialMs, maxMs, factor: 2, jitter: 0.5, random: options.random })
    const { required: credentials, onChange } = this.#held
    this.serverTls = { requireClientCert: true, credentials, onChange }
  }

  start(): void {
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    await this.#running
  }

  /** Resolves when there is a certificate. Until then no address can be served with `serverTls`. */
  ready(): Promise<void> {
    return this.#held.ready()
  }

  /** Checks the Secrets now, because one has changed, or because this operator may write from now on. */
  checkNow(): void {
    this.#pause.wake()
  }

  /** Returns the TLS of a client that shows the same certificate as the server. */
  clientTls(serverName: string): ClientTls {
    const { required, onChange } = this.#held
    return {
      serverName,
      onChange,
      credentials() {
        const { cert, key, ca } = required()
        return { ca, identity: { cert, key } }
      },
    }
  }

  /** Returns the present problems in one line, for a condition; empty when there are none. */
  problem(): string {
    return this.#problems.text()
  }

  /** Checks when something is due, at the interval, and sooner after a failure. */
  async #run(): Promise<void> {
    const { signal } = this.#stopped
    while (!signal.aborted) await this.#pause.wait(await this.#checkOnce(), signal)
  }

  /** Resolves with the delay before the next check. */
  async #checkOnce(): Promise<number> {
    const { checkEveryMs, firstCheckEveryMs } = this.#timing
    try {
      const dueInMs = (await this.#check()) - this.#options.clock.nowMs()
      this.#problems.set('store', [])
      this.#backoff.reset()
      return Math.min(checkEveryMs, Math.max(firstCheckEveryMs, dueInMs))
    } catch (error) {
      // After a conflict, the next check reads what another operator has written.
      if (!isConflict(error) && !this.#stopped.signal.aborted) {
        this.#problems.set('store', [(error as Error).message])
      }
      return this.#backoff.nextMs()
    }
  }

  /** Resolves with the time at which something is due, by the clock of this process. */
  async #check(): Promise<number> {
    const { issuer, mayWrite, secretNames, clock } = this.#options
    const server = await this.#get('server')
    this.#adopt(server)
    if (issuer === 'other') {
      const contents = contentsOf({ server, client: await this.#get('client'), authority: undefined })
      const expected = { leafSpecs: this.#leafSpecs, secretNames, nowMs: clock.nowMs() }
      this.#problems.set('contents', checkForeignLeaves(contents, expected))
    } else if (mayWrite()) {
      const [authority, client] = [await this.#get('authority'), await this.#get('client')]
      return this.#reconcile({ server, authority, client })
    } else {
      this.#problems.set('contents', [])
    }
    return this.#held.current() ? Number.POSITIVE_INFINITY : clock.nowMs()
  }

  /** Uses the credentials of the operators' Secret, if it has any. */
  #adopt(server: StoredSecret | undefined): void {
    const credentials = readCredentials(server?.data)
    if (credentials) this.#held.set(credentials)
    const isLost = credentials === undefined && this.#held.current() !== undefined
    const lost = `${this.#options.secretNames.server}: has no certificate that can be used`
    this.#problems.set('own', isLost ? [lost] : [])
  }

  /** Writes one Secret after the other, each from the result of the last write, until nothing is due. */
  async #reconcile(read: StoredSecrets): Promise<number> {
    const { store, secretNames, mayWrite, clock, log } = this.#options
    const leafSpecs = this.#leafSpecs
    let secrets = read
    for (let writes = 0; writes < maxWritesPerCheck; writes++) {
      const nowMs = clock.nowMs()
      const contents = contentsOf(secrets)
      const { state, problems } = readSecrets(contents, { leafSpecs, nowMs })
      this.#problems.set('contents', problems)
      const action = plan(state, nowMs, this.#timing)
      if (action.kind === 'wait') return action.untilMs
      if (!mayWrite()) return Number.POSITIVE_INFINITY
      const { secret, data } = writeAction(action, contents, { leafSpecs, nowMs, timing: this.#timing })
      const written = await store.put(secretNames[secret], data, secrets[secret], this.#limit())
      log.info('wrote certificates', { secret: secretNames[secret], why: action.why })
      secrets = { ...secrets, [secret]: written }
      if (secret === 'server') this.#adopt(written)
    }
    throw new Error(`the Secrets are not as they should be after ${maxWritesPerCheck} writes`)
  }

  #get(secret: keyof StoredSecrets): Promise<StoredSecret | undefined> {
    return this.#options.store.get(this.#options.secretNames[secret], this.#limit())
  }

  /** Returns a signal that ends a call of the store at the stop, and after the time limit. */
  #limit(): AbortSignal {
    return AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(this.#timing.storeTimeoutMs)])
  }
}

function contentsOf({ authority, server, client }: StoredSecrets): SecretContents {
  return { authority: authority?.data, server: server?.data, client: client?.data }
}

function isConflict(error: unknown): boolean {
  return (error as { readonly code?: unknown } | undefined)?.code === 409
}

/** The present problems by the place where they occurred. Each is logged once while it lasts. */
class Problems {
  readonly #log: Log
  readonly #found = new Map<string, readonly string[]>()

  constructor(log: Log) {
    this.#log = log
  }

  set(place: string, problems: readonly string[]): void {
    const before = this.#found.get(place) ?? []
    for (const problem of problems) if (!before.includes(problem)) this.#log.warn('certificates', { problem })
    this.#found.set(place, problems)
  }

  text(): string {
    return [...this.#found.values()].flat().join('; ')
  }
}
