import { X509Certificate } from 'node:crypto'
import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'
import { isConflict } from '../controller/lease-elector.ts'
import { type LeafName, leafNames, trustedBy } from './certificate-state.ts'
import { type CertificateIdentity, issueAuthority, issueLeaf, purposes } from './issue.ts'
import {
  type CertificateAction,
  type CertificateTiming,
  checkTiming,
  defaultCertificateTiming,
  plan,
} from './plan.ts'
import {
  authorityContent,
  type LeafSpec,
  leafContent,
  readCredentials,
  readSecrets,
  type SecretContents,
  type SecretData,
  type SecretStore,
  type StoredSecret,
  toIssuer,
} from './secret-content.ts'

interface CertificatesOptions {
  readonly store: SecretStore
  readonly secretNames: Readonly<Record<keyof StoredSecrets, string>>
  /** The DNS names of each leaf certificate; the first one is also the common name. */
  readonly dnsNames: Readonly<Record<LeafName, readonly string[]>>
  /** Which program creates and renews the certificates; `operator` by default. */
  readonly issuer?: 'operator' | 'other'
  /** Returns whether this operator leads. Checked before each write. */
  readonly mayWrite: () => boolean
  readonly clock: Clock
  readonly log: Log
  readonly random: () => number
  readonly timing?: Partial<CertificatesTiming>
}

interface CertificatesTiming extends CertificateTiming {
  /** The time between two reads of the Secrets, in case a change was not reported by `checkNow`. */
  readonly checkEveryMs: number
  /**
   * The time between two reads while the operator has no certificate; also the shortest delay between two
   * checks.
   */
  readonly firstCheckEveryMs: number
  /** The longest wait between a failed check and the next one. */
  readonly longestRetryMs: number
  readonly storeTimeoutMs: number
}

/** The last read or written state of each Secret; undefined if the Secret does not exist. */
interface StoredSecrets {
  readonly authority: StoredSecret | undefined
  readonly server: StoredSecret | undefined
  readonly client: StoredSecret | undefined
}

const defaultCertificatesTiming: CertificatesTiming = {
  ...defaultCertificateTiming,
  checkEveryMs: 600_000,
  firstCheckEveryMs: 1_000,
  longestRetryMs: 30_000,
  storeTimeoutMs: 10_000,
}

/**
 * The most writes in one check, more than any state requires. If they do not suffice, another program is
 * reverting them.
 */
const maxWritesPerCheck = 20

/**
 * Provides the certificates by which operators and pods authenticate each other. Every operator reads the
 * Secret of the operators' certificate and uses it for new handshakes. The leader creates and renews the
 * three Secrets. If `issuer` is `other`, no operator writes, and each one reports the problems of both leaf
 * certificates.
 */
export class Certificates {
  /** Requires from each caller a certificate that the same authorities have issued. */
  readonly serverTls: ServerTls
  readonly #options: CertificatesOptions
  readonly #timing: CertificatesTiming
  readonly #leafSpecs: Readonly<Record<LeafName, LeafSpec>>
  readonly #credentials = createCurrentCredentials()
  readonly #problems: Problems
  readonly #stopped = new AbortController()
  readonly #pause = new WakeablePause()
  readonly #backoff: Backoff
  #running: Promise<void> = Promise.resolve()

  /** @throws Error if `checkTiming` rejects the times */
  constructor(options: CertificatesOptions) {
    this.#options = options
    this.#timing = { ...defaultCertificatesTiming, ...options.timing }
    checkTiming(this.#timing)
    this.#leafSpecs = {
      // Operators also call each other.
      server: { dnsNames: options.dnsNames.server, usage: ['server', 'client'] },
      // The operator also calls some of its pods.
      client: { dnsNames: options.dnsNames.client, usage: ['client', 'server'] },
    }
    this.#problems = new Problems(options.log)
    const { firstCheckEveryMs: initialMs, longestRetryMs: maxMs } = this.#timing
    this.#backoff = createBackoff({ initialMs, maxMs, factor: 2, jitter: 0.5, random: options.random })
    const { required: credentials, onChange } = this.#credentials
    this.serverTls = { requireClientCert: true, credentials, onChange }
  }

  start(): void {
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    await this.#running
  }

  /** Resolves when the operator has a certificate. Before that, no server can listen with `serverTls`. */
  ready(): Promise<void> {
    return this.#credentials.ready()
  }

  /** Checks the Secrets now. Called when one has changed, and when this operator has become the leader. */
  checkNow(): void {
    this.#pause.wake()
  }

  /** Returns the TLS options of a client that shows the same certificate as the server. */
  clientTls(serverName: string): ClientTls {
    const { required, onChange } = this.#credentials
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

  async #run(): Promise<void> {
    const { signal } = this.#stopped
    while (!signal.aborted) await this.#pause.wait(await this.#checkOnce(), signal)
  }

  /**
   * Checks the Secrets once, and records a failure as a problem. Resolves with the delay before the next
   * check.
   */
  async #checkOnce(): Promise<number> {
    const { checkEveryMs, firstCheckEveryMs } = this.#timing
    try {
      const dueInMs = (await this.#check()) - this.#options.clock.nowMs()
      this.#problems.set('store', [])
      this.#backoff.reset()
      return Math.min(checkEveryMs, Math.max(firstCheckEveryMs, dueInMs))
    } catch (error) {
      // A conflict is no problem: another operator has written, and the next check reads the result.
      if (!isConflict(error) && !this.#stopped.signal.aborted) {
        this.#problems.set('store', [(error as Error).message])
      }
      return this.#backoff.nextMs()
    }
  }

  /**
   * Resolves with the wall-clock time at which the next check is due: now while there is no certificate;
   * Infinity if only the interval decides.
   */
  async #check(): Promise<number> {
    const { issuer, mayWrite, secretNames, clock } = this.#options
    const server = await this.#get('server')
    this.#adopt(server)
    if (issuer === 'other') {
      const contents = pickData({ server, client: await this.#get('client'), authority: undefined })
      const expected = { leafSpecs: this.#leafSpecs, secretNames, nowMs: clock.nowMs() }
      this.#problems.set('contents', checkForeignLeaves(contents, expected))
    } else if (mayWrite()) {
      const [authority, client] = [await this.#get('authority'), await this.#get('client')]
      return this.#reconcile({ server, authority, client })
    } else {
      this.#problems.set('contents', [])
    }
    return this.#credentials.current() ? Number.POSITIVE_INFINITY : clock.nowMs()
  }

  /**
   * Uses the credentials in the operators' Secret for new handshakes. If the Secret has no usable
   * credentials, the former ones stay in use, and a problem is reported.
   */
  #adopt(server: StoredSecret | undefined): void {
    const credentials = readCredentials(server?.data)
    if (credentials) this.#credentials.set(credentials)
    const isLost = credentials === undefined && this.#credentials.current() !== undefined
    const lost = `${this.#options.secretNames.server}: has no certificate that can be used`
    this.#problems.set('own', isLost ? [lost] : [])
  }

  /**
   * Writes the Secrets one by one until no write is due. Each write is planned from the result of the
   * previous one. Resolves with the time of the next due write.
   */
  async #reconcile(read: StoredSecrets): Promise<number> {
    const { store, secretNames, mayWrite, clock, log } = this.#options
    const leafSpecs = this.#leafSpecs
    let secrets = read
    for (let writes = 0; writes < maxWritesPerCheck; writes++) {
      const nowMs = clock.nowMs()
      const contents = pickData(secrets)
      const { state, problems } = readSecrets(contents, { leafSpecs, nowMs })
      this.#problems.set('contents', problems)
      const action = plan(state, nowMs, this.#timing)
      if (action.kind === 'wait') return action.untilMs
      if (!mayWrite()) return Number.POSITIVE_INFINITY
      const { secret, data } = writeAction(action, contents, { leafSpecs, nowMs, timing: this.#timing })
      const written = await store.put(secretNames[secret], data, secrets[secret], this.#limit())
      log.info('write certificates', { secret: secretNames[secret], why: action.why })
      secrets = { ...secrets, [secret]: written }
      if (secret === 'server') this.#adopt(written)
    }
    throw new Error(`${maxWritesPerCheck} writes did not complete the Secrets of certificates`)
  }

  #get(secret: keyof StoredSecrets): Promise<StoredSecret | undefined> {
    return this.#options.store.get(this.#options.secretNames[secret], this.#limit())
  }

  /** Returns a signal that aborts a store call on `stop`, or after `storeTimeoutMs`. */
  #limit(): AbortSignal {
    return AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(this.#timing.storeTimeoutMs)])
  }
}

function pickData({ authority, server, client }: StoredSecrets): SecretContents {
  return { authority: authority?.data, server: server?.data, client: client?.data }
}

/**
 * The present problems, by the part of the check that found them. A problem is logged only when it appears.
 */
class Problems {
  readonly #log: Log
  readonly #found = new Map<string, readonly string[]>()

  constructor(log: Log) {
    this.#log = log
  }

  set(place: string, problems: readonly string[]): void {
    const before = this.#found.get(place) ?? []
    for (const problem of problems)
      if (!before.includes(problem)) this.#log.warn('check certificates failed', { problem })
    this.#found.set(place, problems)
  }

  text(): string {
    return [...this.#found.values()].flat().join('; ')
  }
}

interface ForeignLeaves {
  readonly leafSpecs: Readonly<Record<LeafName, LeafSpec>>
  readonly secretNames: Readonly<Record<LeafName, string>>
  readonly nowMs: number
}

/**
 * Returns the problems of leaf certificates that another program issues (for example cert-manager), each with
 * the name of the Secret. A problem never quotes the content of a Secret.
 */
function checkForeignLeaves(
  contents: Pick<SecretContents, LeafName>,
  { leafSpecs, secretNames, nowMs }: ForeignLeaves,
): readonly string[] {
  return leafNames.flatMap(name => {
    const problem = findLeafProblem(contents[name], leafSpecs[name], nowMs)
    return problem === undefined ? [] : [`${secretNames[name]}: ${problem}`]
  })
}

const entries = ['tls.crt', 'tls.key', 'ca.crt'] as const

function findLeafProblem(
  data: SecretContents[LeafName],
  { dnsNames, usage }: LeafSpec,
  nowMs: number,
): string | undefined {
  if (data === undefined) return 'does not exist; its issuer has not created it yet'
  const missing = entries.filter(entry => (data[entry] ?? '') === '')
  if (missing.length > 0)
    return `has no ${missing.join(', ')}; use an issuer that writes ${entries.join(', ')}`
  const credentials = readCredentials(data)
  if (credentials === undefined) return `${entries.join(', ')} are not a certificate with its key in PEM`
  const certificate = new X509Certificate(credentials.cert)
  if (certificate.validToDate.getTime() <= nowMs) return `tls.crt expired at ${certificate.validTo}`
  const name = dnsNames.find(wanted => certificate.checkHost(wanted) === undefined)
  if (name !== undefined) return `tls.crt is for ${certificate.subjectAltName}, and must be for DNS:${name}`
  const kind = usage.find(wanted => !certificate.keyUsage?.includes(purposes[wanted]))
  return kind && `tls.crt has not the usage "${kind} auth"`
}

/** The certificate and secret key for handshakes, and the trusted authorities, all in PEM. */
interface Credentials extends CertificateIdentity {
  readonly ca: string
}

function createCurrentCredentials() {
  const listeners = new Set<() => void>()
  const { promise: ready, resolve: onReady } = Promise.withResolvers<void>()
  let current: Credentials | undefined
  return {
    current: (): Credentials | undefined => current,
    /** @throws Error while there are no credentials */
    required(): Credentials {
      if (current === undefined) throw new Error('the operator has no certificate yet')
      return current
    },
    set(credentials: Credentials): void {
      const { cert, key, ca } = credentials
      if (cert === current?.cert && key === current.key && ca === current.ca) return
      current = { cert, key, ca }
      onReady()
      for (const listener of [...listeners]) listener()
    },
    ready: (): Promise<void> => ready,
    onChange(listener: () => void): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

interface WriteOptions {
  readonly leafSpecs: Readonly<Record<'server' | 'client', LeafSpec>>
  readonly nowMs: number
  readonly timing: CertificateTiming
}

/** The start of the common name of each authority that the operator creates. */
const authorityName = 'tollway feed'

/**
 * Returns the Secret that an action writes, with the new content. Creates the keys of new certificates.
 *
 * @param contents the present contents of the Secrets; a leaf certificate that the action keeps is copied
 *   from here
 */
function writeAction(
  action: Exclude<CertificateAction, { readonly kind: 'wait' }>,
  contents: SecretContents,
  { leafSpecs, nowMs, timing }: WriteOptions,
): { readonly secret: keyof SecretContents; readonly data: SecretData } {
  const newIssuer = () =>
    toIssuer(issueAuthority(authorityName, { nowMs, expiresAtMs: nowMs + timing.authorityLifeMs }))
  if (action.kind === 'write-authority') {
    const issuing = action.issuing === 'new' ? newIssuer() : action.issuing
    const next = action.next === 'new' ? newIssuer() : action.next
    return { secret: 'authority', data: authorityContent({ issuing, next, old: action.old }) }
  }
  const { name, authority, certificate, expiresAtMs, trustedSinceMs } = action
  const { pem, key = '' } = authority.issuing
  const kept: CertificateIdentity = {
    cert: contents[name]?.['tls.crt'] ?? '',
    key: contents[name]?.['tls.key'] ?? '',
  }
  const identity =
    certificate === 'keep' ? kept : issueLeaf({ cert: pem, key }, { ...leafSpecs[name], nowMs, expiresAtMs })
  return { secret: name, data: leafContent(identity, trustedBy(authority), trustedSinceMs) }
}
