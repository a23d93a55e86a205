import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createWakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'
import type { LeafName } from './certificate-state.ts'
import { createHeldCredentials } from './held-credentials.ts'
import { judgeForeignLeaves } from './judge-foreign-leaves.ts'
import { type CertificateTiming, checkTiming, defaultCertificateTiming, plan } from './plan.ts'
import { type LeafWish, readCredentials, readSecrets, type SecretContents } from './secret-content.ts'
import type { SecretStore, StoredSecret } from './secret-store.ts'
import { writeAction } from './write-action.ts'

/**
 * The certificates by which operators and pods authenticate each other. Every operator reads the Secret of
 * the operators' leaf, and uses it for later handshakes; the leader creates and renews the three Secrets.
 * With another issuer no operator writes, and each one reports the problems of both leaves.
 */
export interface Certificates {
  start(): void
  /** Resolves when there is a certificate to show. Until then no address can be served with `serverTls`. */
  ready(): Promise<void>
  /** Looks now, and not only when it is time: we may write from now on. */
  lookNow(): void
  /** Asks callers for a certificate of the same authority. */
  readonly serverTls: ServerTls
  /** Shows the same certificate as a client. */
  clientTls(serverName: string): ClientTls
  /** Why something is not as it should be, in one line, for a condition; empty when all is well. */
  problem(): string
  stop(): Promise<void>
}

export interface CertificatesOptions {
  readonly store: SecretStore
  /** The names of the three Secrets. */
  readonly secretNames: Readonly<Record<keyof StoredSecrets, string>>
  /** The names that each leaf is for; the first is shown to people. */
  readonly dnsNames: Readonly<Record<LeafName, readonly string[]>>
  /** Who creates and renews the certificates; this program by default. */
  readonly issuer?: 'operator' | 'other'
  /** Whether we are the one that writes. Asked before each write. */
  readonly mayWrite: () => boolean
  readonly clock: Clock
  readonly log: Log
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly timing?: Partial<CertificatesTiming>
}

export interface CertificatesTiming extends CertificateTiming {
  /** The time between two reads of the Secrets. */
  readonly lookEveryMs: number
  /** As long as there is no certificate yet. */
  readonly firstLooksEveryMs: number
  /** A call of the store that takes longer has failed. */
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
  lookEveryMs: 30_000,
  firstLooksEveryMs: 1_000,
  storeTimeoutMs: 10_000,
}

/** More writes than any state needs. Beyond them, another program undoes the writes. */
const maxWritesPerLook = 20

/** @throws Error for times that cannot work together. */
export function createCertificates(options: CertificatesOptions): Certificates {
  const { store, secretNames, mayWrite, clock, log } = options
  const timing = { ...defaultCertificatesTiming, ...options.timing }
  checkTiming(timing)
  const wishes: Readonly<Record<LeafName, LeafWish>> = {
    // Operators call each other, too.
    server: { dnsNames: options.dnsNames.server, usage: ['server', 'client'] },
    // The operator calls some of its pods.
    client: { dnsNames: options.dnsNames.client, usage: ['client', 'server'] },
  }
  const held = createHeldCredentials()
  const problems = createProblems(log)
  const stopped = new AbortController()

  const limit = () => AbortSignal.any([stopped.signal, AbortSignal.timeout(timing.storeTimeoutMs)])
  const get = (secret: keyof StoredSecrets) => store.get(secretNames[secret], limit())

  /** Answers when something is due, by our clock. */
  async function look(): Promise<number> {
    const server = await get('server')
    adopt(server)
    if (options.issuer === 'other') {
      const client = await get('client')
      const contents = contentsOf({ server, client, authority: undefined })
      problems.tell('contents', judgeForeignLeaves(contents, { wishes, secretNames, nowMs: clock.nowMs() }))
      return held.current() ? Number.POSITIVE_INFINITY : clock.nowMs()
    }
    if (mayWrite()) return settle({ server, authority: await get('authority'), client: await get('client') })
    problems.tell('contents', [])
    return held.current() ? Number.POSITIVE_INFINITY : clock.nowMs()
  }

  function adopt(server: StoredSecret | undefined): void {
    const credentials = readCredentials(server?.data)
    if (credentials) held.set(credentials)
    const isLost = credentials === undefined && held.current() !== undefined
    problems.tell('own', isLost ? [`${secretNames.server}: has no certificate that can be used`] : [])
  }

  /** One write after the other, each from what the one before left, until nothing is to be done. */
  async function settle(read: StoredSecrets): Promise<number> {
    let secrets = read
    for (let writes = 0; writes < maxWritesPerLook; writes++) {
      const nowMs = clock.nowMs()
      const contents = contentsOf(secrets)
      const { state, problems: found } = readSecrets(contents, { wishes, nowMs })
      problems.tell('contents', found)
      const action = plan(state, nowMs, timing)
      if (action.kind === 'wait') return action.untilMs
      if (!mayWrite()) return Number.POSITIVE_INFINITY
      const { secret, data } = writeAction(action, contents, { wishes, nowMs, timing })
      const written = await store.put(secretNames[secret], data, secrets[secret], limit())
      log.info('wrote certificates', { secret: secretNames[secret], why: action.why })
      secrets = { ...secrets, [secret]: written }
      if (secret === 'server') adopt(written)
    }
    throw new Error(`the Secrets are not as they should be after ${maxWritesPerLook} writes`)
  }

  const looks = createLooks({ ...timing, look, clock, random: options.random, problems, stopped })
  return {
    start: looks.start,
    ready: held.ready,
    lookNow: looks.lookNow,
    serverTls: { requireClientCert: true, credentials: held.required, onChange: held.onChange },
    clientTls: serverName => ({
      serverName,
      onChange: held.onChange,
      credentials() {
        const { cert, key, ca } = held.required()
        return { ca, identity: { cert, key } }
      },
    }),
    problem: problems.text,
    async stop() {
      stopped.abort()
      await looks.ended()
    },
  }
}

function contentsOf({ authority, server, client }: StoredSecrets): SecretContents {
  return { authority: authority?.data, server: server?.data, client: client?.data }
}

interface LooksOptions extends Pick<CertificatesTiming, 'lookEveryMs' | 'firstLooksEveryMs'> {
  look(): Promise<number>
  readonly clock: Clock
  readonly random: () => number
  readonly problems: Problems
  readonly stopped: AbortController
}

/** Looks again and again: when something is due, when it is time, and sooner after a failure. */
function createLooks({ look, clock, problems, stopped: { signal }, ...options }: LooksOptions) {
  const { firstLooksEveryMs, lookEveryMs, random } = options
  const pause = createWakeablePause()
  const backoff = createBackoff({
    ...{ initialMs: firstLooksEveryMs, maxMs: lookEveryMs, factor: 2, jitter: 0.5, random },
  })
  let running: Promise<void> = Promise.resolve()

  async function lookOnce(): Promise<number> {
    try {
      const dueInMs = (await look()) - clock.nowMs()
      problems.tell('store', [])
      backoff.reset()
      return Math.min(lookEveryMs, Math.max(firstLooksEveryMs, dueInMs))
    } catch (error) {
      // Another operator was faster; its write is read next.
      if (!isConflict(error) && !signal.aborted) problems.tell('store', [(error as Error).message])
      return backoff.nextMs()
    }
  }

  async function run(): Promise<void> {
    while (!signal.aborted) await pause.wait(await lookOnce(), signal)
  }

  return {
    start() {
      running = run()
    },
    lookNow: pause.wake,
    ended: () => running,
  }
}

function isConflict(error: unknown): boolean {
  return (error as { readonly code?: unknown } | undefined)?.code === 409
}

type Problems = ReturnType<typeof createProblems>

/** The present problems by the place where they occurred. Each is logged once while it lasts. */
function createProblems(log: Log) {
  const found = new Map<string, readonly string[]>()
  return {
    tell(place: string, problems: readonly string[]): void {
      const before = found.get(place) ?? []
      for (const problem of problems) if (!before.includes(problem)) log.warn('certificates', { problem })
      found.set(place, problems)
    },
    text: () => [...found.values()].flat().join('; '),
  }
}
