import type { Clock } from '@tollway/chassis/clock.ts'
import { hashApiKey, newApiKey, type RandomBytes } from '@tollway/payments/domain/ids.ts'
import type { MerchantAccount, SecretEntry } from '../../model.ts'
import type { CredentialReference, CredentialStore, StoredCredentials } from './credential-store.ts'
import { dueInMs, findRotationReason, readGrace, readKeys, stagedEntry } from './key-plan.ts'
import type { MerchantObstacle } from './merchant-conditions.ts'
import {
  attempt,
  findSecretFaults,
  foreignSecret,
  invalidSecret,
  missingSecret,
  noPayments,
  ObstacleError,
  toObstacle,
} from './obstacles.ts'
import type { Provisioned, Provisioner, ProvisionRejection, ProvisionRequest } from './provisioner.ts'

/** The parts of a request to the payments service that are read from Secrets. */
type References = Pick<ProvisionRequest, 'webhooks' | 'adopt'>

/**
 * Resolves with the entries of a Secret; undefined if it does not exist. Rejects if the Secret cannot be
 * read.
 */
type ReadSecret = (
  namespace: string,
  name: string,
  signal: AbortSignal,
) => Promise<Readonly<Record<string, string>> | undefined>

/** Reads the Secrets of the account's namespace that webhooks and `adopt` name. */
async function readReferences(
  readSecret: ReadSecret,
  namespace: string,
  { webhooks, adopt }: Pick<MerchantAccount, 'webhooks' | 'adopt'>,
  signal: AbortSignal,
): Promise<References> {
  const read = new Map<string, ReturnType<ReadSecret>>()
  const textIn = async ({ name, key }: SecretEntry) => {
    const reading = read.get(name) ?? readSecret(namespace, name, signal)
    read.set(name, reading)
    const entries = await attempt('SecretUnknown', () => reading)
    return entries !== undefined && Object.hasOwn(entries, key) ? entries[key]?.trim() : undefined
  }
  const found: ProvisionRequest['webhooks'][number][] = []
  for (const [index, { url, events, secret }] of webhooks.entries()) {
    const lines = (await textIn(secret))?.split('\n').map(line => line.trim()) ?? []
    const secrets = lines.filter(line => line !== '')
    if (secrets.length === 0) throw new ObstacleError(missingSecret(namespace, secret))
    const faults = findSecretFaults(secrets)
    if (faults.length > 0)
      throw new ObstacleError(invalidSecret(`spec.webhooks[${index}].secretRef`, secret, faults))
    found.push({ url, events, secrets })
  }
  if (adopt === undefined) return { webhooks: found }
  const key = await textIn(adopt.apiKey)
  const keyHash = key === undefined ? null : hashApiKey(key)
  return { webhooks: found, adopt: { merchantId: adopt.merchantId, keyHash } }
}

interface WantedMerchant {
  readonly uid: string
  readonly namespace: string
  readonly name: string
  readonly account: MerchantAccount
  /** The value of the annotation that requests another key; empty without it. */
  readonly rotation: string
  /**
   * Ensures that a deletion of the resource is seen; see `MerchantResources.hold`. Called before the merchant
   * is created.
   */
  readonly hold: () => Promise<void>
}

export interface MerchantOutcome {
  /** The ids of the merchant; undefined while they are not known. */
  readonly ids: Provisioned | undefined
  readonly synced: boolean
  readonly obstacle: MerchantObstacle | undefined
  /**
   * The delay before the next reconcile in milliseconds; undefined for a retry after a delay that grows each
   * time.
   */
  readonly afterMs: number | undefined
}

/**
 * Returns the names of the Secrets that a reconcile reads: the Secret of the credentials, and those that the
 * resource names.
 */
export function listSecrets({ secret, webhooks, adopt }: MerchantAccount): ReadonlySet<string> {
  const named = webhooks.map(webhook => webhook.secret.name)
  return new Set([secret.name, ...named, ...(adopt ? [adopt.apiKey.name] : [])])
}

export interface MerchantReconcilerOptions {
  readonly store: CredentialStore
  readonly readSecret: ReadSecret
  /** undefined if the environment runs no payments service. */
  readonly provisioner: Provisioner | undefined
  readonly addresses: PaymentAddresses
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly timing?: Partial<MerchantReconcilerTiming>
}

/** The addresses of the payments service that programs find in the credentials. */
export interface PaymentAddresses {
  readonly baseUrl: string
  readonly payPageUrl: string
}

export interface MerchantReconcilerTiming {
  /** The interval of reconciles in milliseconds. A deleted Secret is created again within this time. */
  readonly intervalMs: number
  /**
   * After this time an unchanged request is sent again, because another client may have changed the merchant.
   */
  readonly resyncMs: number
}

const defaultTiming: MerchantReconcilerTiming = { intervalMs: 30_000, resyncMs: 600_000 }

/**
 * The most keys that the payments service may reject in one reconcile, because they have expired or belong to
 * another merchant. Each is replaced by a new key; one rejection more is an obstacle.
 */
const maxRejectedKeys = 2

interface Run {
  readonly merchant: WantedMerchant
  readonly reference: CredentialReference
  readonly references: References
  readonly provisioner: Provisioner
  readonly signal: AbortSignal
}

/**
 * Reconciles Merchants. Each step starts from what the previous one stored, so after a crash at any point a
 * new run has the same result. The steps are:
 *
 * 1. Store a new API key in an entry of the Secret that no program reads.
 * 2. Send the hash of the key to the payments service, which creates the merchant of this uid if it does not
 * exist.
 * 3. Store the key and all ids in the entries that programs read.
 * 4. Tell the payments service that this key is in force, and how long other keys stay valid.
 */
export class MerchantReconciler {
  readonly #options: MerchantReconcilerOptions
  readonly #intervalMs: number
  readonly #requests: SentRequests

  constructor(options: MerchantReconcilerOptions) {
    const { intervalMs, resyncMs } = { ...defaultTiming, ...options.timing }
    this.#options = options
    this.#intervalMs = intervalMs
    this.#requests = new SentRequests(options.clock, resyncMs)
  }

  /**
   * Reconciles a Merchant. Two calls for one uid must not overlap. Obstacles are part of the outcome. Rejects
   * with the reason of the signal when it aborts, and on unexpected errors.
   */
  async reconcile(merchant: WantedMerchant, signal: AbortSignal): Promise<MerchantOutcome> {
    try {
      const provisioner = this.#provisioner()
      const { namespace, account } = merchant
      const references = await readReferences(this.#options.readSecret, namespace, account, signal)
      return await this.#run(
        { merchant, reference: toCredentialReference(merchant), references, provisioner, signal },
        0,
      )
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof ObstacleError)) throw error
      const { obstacle } = error
      const ids = this.#requests.findIds(merchant.uid)
      return {
        ids,
        synced: ids !== undefined && obstacle.step !== 'Synced',
        obstacle,
        // No event reports that a user has changed the Secret or added a missing object, so this is polled.
        afterMs: obstacle.stalled ? this.#intervalMs : undefined,
      }
    }
  }

  /** Closes the merchant of a resource that is being deleted. Rejects if the call must be repeated. */
  async close(uid: string, signal: AbortSignal): Promise<void> {
    await this.#provisioner().close(uid, signal)
    this.forget(uid)
  }

  forget(uid: string): void {
    this.#requests.forget(uid)
  }

  #provisioner(): Provisioner {
    const { provisioner } = this.#options
    if (provisioner === undefined) throw new ObstacleError(noPayments)
    return provisioner
  }

  async #run(run: Run, rejectedKeys: number): Promise<MerchantOutcome> {
    const { account } = run.merchant
    const found = await this.#read(run)
    await this.#hold(run)
    const kept = await this.#stageKey(run, found)
    const { current, staged } = readKeys(account, kept)
    const key = staged ?? current ?? ''
    const answer = await this.#provision(run, key, staged === undefined ? readGrace(kept) : null)
    if ('rejected' in answer) {
      const isFinal = answer.rejected.why !== 'key' || rejectedKeys >= maxRejectedKeys
      if (isFinal) throw new ObstacleError(toObstacle(answer))
      await this.#write(run, this.#stagedKey(run, 0), kept)
      return this.#run(run, rejectedKeys + 1)
    }
    const now = await this.#publish(run, kept, key, answer)
    // Programs find the new key from now on, so earlier keys may expire.
    if (staged !== undefined) await this.#provision(run, key, readGrace(now))
    const afterMs = Math.min(this.#intervalMs, dueInMs(account, now, this.#options.clock.nowMs()))
    return { ids: answer, synced: true, obstacle: undefined, afterMs }
  }

  /**
   * Calls `hold`. If a deletion must close the merchant, first checks that the payments service answers. If
   * it does not, no merchant is created, so the deletion of the resource need not be delayed.
   */
  async #hold({ merchant: { uid, account, hold }, provisioner, signal }: Run): Promise<void> {
    if (account.onDeletion === 'close' && this.#requests.findIds(uid) === undefined) {
      await attempt('PaymentsUnreachable', () => provisioner.check(signal))
    }
    await hold()
  }

  async #read({ reference, signal }: Run): Promise<StoredCredentials | undefined> {
    const kept = await attempt('SecretUnknown', () => this.#options.store.get(reference, signal))
    if (kept?.isOurs === false) throw new ObstacleError(foreignSecret(reference))
    return kept
  }

  #write(
    { reference, signal }: Run,
    content: Parameters<CredentialStore['put']>[1],
    known: StoredCredentials | undefined,
  ): Promise<StoredCredentials> {
    return attempt('SecretNotWritten', () => this.#options.store.put(reference, content, known, signal))
  }

  /**
   * Stores a key before its hash is sent, so that a crash never loses a key that the payments service knows.
   */
  async #stageKey(run: Run, kept: StoredCredentials | undefined): Promise<StoredCredentials> {
    const { account, rotation } = run.merchant
    if (kept !== undefined && readKeys(account, kept).staged !== undefined) return kept
    const reason = findRotationReason(account, kept, { rotation, nowMs: this.#options.clock.nowMs() })
    if (reason === undefined && kept !== undefined) return kept
    return this.#write(run, this.#stagedKey(run, reason?.graceMs ?? 0), kept)
  }

  #stagedKey({ merchant: { account, rotation } }: Run, graceMs: number) {
    return {
      entries: { [stagedEntry(account)]: newApiKey(this.#options.randomBytes) },
      notes: { 'key-grace': `${graceMs}`, 'key-rotation': rotation },
      remove: [],
    }
  }

  #provision(
    { merchant: { uid, account }, references, provisioner, signal }: Run,
    key: string,
    otherKeysExpireInMs: number | null,
  ): Promise<Provisioned | ProvisionRejection> {
    const { profile, app, users } = account
    const keyHash = hashApiKey(key)
    const request = { profile, appName: app.name, keyHash, otherKeysExpireInMs, users, ...references }
    return this.#requests.send(provisioner, uid, request, signal)
  }

  async #publish(
    run: Run,
    kept: StoredCredentials,
    key: string,
    ids: Provisioned,
  ): Promise<StoredCredentials> {
    const { account } = run.merchant
    const { addresses, clock } = this.#options
    const names = account.secret.entries
    const values = { apiKey: key, ...ids, ...addresses }
    const entries = Object.fromEntries(
      Object.entries(values).map(([name, value]) => [names[name as keyof typeof values], value]),
    )
    const isNewKey = kept.entries[names.apiKey] !== key
    const isStored = Object.entries(entries).every(([name, value]) => kept.entries[name] === value)
    if (isStored && !isNewKey) return kept
    const notes = isNewKey ? { 'key-since': new Date(clock.nowMs()).toISOString() } : {}
    return this.#write(run, { entries, notes, remove: [stagedEntry(account)] }, kept)
  }
}

function toCredentialReference({ namespace, name, uid, account }: WantedMerchant): CredentialReference {
  return { namespace, name: account.secret.name, owner: { name, uid } }
}

interface Sent {
  /** A digest in place of the request, so that secrets of webhooks do not stay in memory. */
  readonly digest: string
  readonly atMs: number
  readonly ids: Provisioned
}

/** The last request for each merchant. An unchanged request is sent again only after `resyncMs`. */
class SentRequests {
  readonly #clock: Clock
  readonly #resyncMs: number
  readonly #sent = new Map<string, Sent>()

  constructor(clock: Clock, resyncMs: number) {
    this.#clock = clock
    this.#resyncMs = resyncMs
  }

  /**
   * Sends the request for the merchant of this uid, unless the same request was answered less than `resyncMs`
   * ago.
   */
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

  findIds(uid: string): Provisioned | undefined {
    return this.#sent.get(uid)?.ids
  }

  forget(uid: string): void {
    this.#sent.delete(uid)
  }
}
