import type { Clock } from '@tollway/chassis/clock.ts'
import { webhookSecretFault, webhookSecretForm } from '@tollway/chassis/webhooks/webhook-secret.ts'
import { hashApiKey, newApiKey, type RandomBytes } from '@tollway/payments/domain/ids.ts'
import type { MerchantAccount, SecretEntry } from '../../ir.ts'
import { SecretForbiddenError } from '../../sources/secret-forbidden.ts'
import { formatFieldProblem } from '../field-problem.ts'
import type { CredentialPlace, CredentialStore, KeptCredentials } from './credential-store.ts'
import { dueInMs, graceOf, readKeys, stagedEntry, whyNewKey } from './key-plan.ts'
import { immutableFieldChanged, type Obstacle } from './merchant-status.ts'
import type { Provisioned, Provisioner, ProvisionRejection, ProvisionRequest } from './provisioner.ts'

/**
 * Reconciles one Merchant. Each step reads what the one before has stored, so that a new run after a crash,
 * at any point, has the same result:
 *
 * 1. It stores a new API key in the Secret, in an entry that no program reads.
 * 2. It sends the hash of the key to the payments service, which creates the merchant of this uid if needed.
 * 3. It stores the key and all ids in the entries that programs read.
 * 4. It sends to the payments service that this key is in force, and how long other keys stay valid.
 */
export interface Merchants {
  /**
   * Reconciles a Merchant. Two runs for one uid must not overlap. Rejects with the signal's reason, or with a
   * defect; obstacles are part of the outcome.
   */
  reconcile(merchant: WantedMerchant, signal: AbortSignal): Promise<MerchantOutcome>
  /** The resource is gone, or will be as soon as this is done. Rejects when it has to be done again. */
  close(uid: string, signal: AbortSignal): Promise<void>
  /** The resource is gone. */
  forget(uid: string): void
}

export interface WantedMerchant {
  readonly uid: string
  readonly namespace: string
  /** Of the resource. */
  readonly name: string
  readonly account: MerchantAccount
  /** See `KeyWishes`. */
  readonly rotation: string
}

export interface MerchantOutcome {
  /** The ids of the merchant, if they are known. */
  readonly ids: Provisioned | undefined
  readonly synced: boolean
  readonly obstacle: Obstacle | undefined
  /** The shortest time until the next look; undefined for soon, and later each time. */
  readonly afterMs: number | undefined
}

/** The names of the Secrets that a look reads: that of the credentials, and those that the resource names. */
export function secretsOf({ secret, webhooks, adopt }: MerchantAccount): ReadonlySet<string> {
  const named = webhooks.map(webhook => webhook.secret.name)
  return new Set([secret.name, ...named, ...(adopt ? [adopt.apiKey.name] : [])])
}

export interface MerchantsOptions {
  readonly store: CredentialStore
  /** The entries of a Secret that a resource names; undefined for none. Rejects when that is not known. */
  readonly readSecret: (
    namespace: string,
    name: string,
    signal: AbortSignal,
  ) => Promise<Readonly<Record<string, string>> | undefined>
  /** undefined where no payments service runs. */
  readonly provisioner: Provisioner | undefined
  readonly addresses: PaymentAddresses
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly timing?: Partial<MerchantsTiming>
}

/** Where programs find the payments service. */
export interface PaymentAddresses {
  readonly baseUrl: string
  readonly payPageUrl: string
}

export interface MerchantsTiming {
  /** The interval of reconciles, within which a deleted Secret is created again, in milliseconds. */
  readonly lookMs: number
  /**
   * The interval at which an unchanged request is repeated, because another client may have changed the
   * merchant.
   */
  readonly resyncMs: number
}

const defaultTiming: MerchantsTiming = { lookMs: 30_000, resyncMs: 600_000 }

/** Keys in one run that the payments service knows for another's, or for expired. */
const maxRejectedKeys = 2

/** Ends a run. */
class Stop extends Error {
  readonly obstacle: Obstacle

  constructor(obstacle: Obstacle) {
    super(obstacle.message)
    this.obstacle = obstacle
  }
}

/** The last request to the payments service, and its answer. */
interface Told {
  /** Of the request. */
  readonly digest: string
  readonly atMs: number
  readonly ids: Provisioned
}

/** One run. */
interface Run {
  readonly merchant: WantedMerchant
  readonly place: CredentialPlace
  readonly wishes: Pick<ProvisionRequest, 'webhooks' | 'adopt'>
  readonly provisioner: Provisioner
  readonly signal: AbortSignal
}

export function createMerchants(options: MerchantsOptions): Merchants {
  const { store, addresses, clock, randomBytes } = options
  const { lookMs, resyncMs } = { ...defaultTiming, ...options.timing }
  const payments = rememberWhatIsTold(clock, resyncMs)

  async function run(merchant: WantedMerchant, signal: AbortSignal): Promise<MerchantOutcome> {
    const { provisioner } = options
    if (provisioner === undefined) throw new Stop(noPayments)
    const place = placeOf(merchant)
    const wishes = await readWishes(options, merchant, signal)
    return settle({ merchant, place, wishes, provisioner, signal }, 0)
  }

  async function settle(run: Run, rejectedKeys: number): Promise<MerchantOutcome> {
    const { account } = run.merchant
    const kept = await stageKey(run, await read(run))
    const { current, staged } = readKeys(account, kept)
    const key = staged ?? current ?? ''
    const answer = await payments.tell(run, key, staged === undefined ? graceOf(kept) : null)
    if ('rejected' in answer) {
      if (answer.rejected.why !== 'key' || rejectedKeys >= maxRejectedKeys) throw new Stop(toObstacle(answer))
      await write(run, stagedKey(run, 0), kept)
      return settle(run, rejectedKeys + 1)
    }
    const now = await publish(run, kept, key, answer)
    // Now that programs find the new key, those before it may expire.
    if (staged !== undefined) await payments.tell(run, key, graceOf(now))
    const afterMs = Math.min(lookMs, dueInMs(account, now, clock.nowMs()))
    return { ids: answer, synced: true, obstacle: undefined, afterMs }
  }

  async function read({ place, signal }: Run): Promise<KeptCredentials | undefined> {
    const kept = await attempt('SecretUnknown', () => store.get(place, signal))
    if (kept?.isOurs === false) throw new Stop(foreign(place))
    return kept
  }

  async function write(
    { place, signal }: Run,
    content: Parameters<CredentialStore['put']>[1],
    known: KeptCredentials | undefined,
  ): Promise<KeptCredentials> {
    return attempt('SecretNotWritten', () => store.put(place, content, known, signal))
  }

  /** Stores a key before its hash is sent, so that no crash loses a key that the payments service knows. */
  async function stageKey(run: Run, kept: KeptCredentials | undefined): Promise<KeptCredentials> {
    const { account, rotation } = run.merchant
    if (kept !== undefined && readKeys(account, kept).staged !== undefined) return kept
    const reason = whyNewKey(account, kept, { rotation, nowMs: clock.nowMs() })
    if (reason === undefined && kept !== undefined) return kept
    return write(run, stagedKey(run, reason?.graceMs ?? 0), kept)
  }

  function stagedKey({ merchant: { account, rotation } }: Run, graceMs: number) {
    return {
      entries: { [stagedEntry(account)]: newApiKey(randomBytes) },
      notes: { 'key-grace': `${graceMs}`, 'key-rotation': rotation },
      remove: [],
    }
  }

  /** Puts the key and the ids where programs read them. */
  async function publish(
    run: Run,
    kept: KeptCredentials,
    key: string,
    ids: Provisioned,
  ): Promise<KeptCredentials> {
    const { account } = run.merchant
    const names = account.secret.entries
    const values = { apiKey: key, ...ids, ...addresses }
    const wanted = Object.fromEntries(
      Object.entries(values).map(([name, value]) => [names[name as keyof typeof values], value]),
    )
    const isNewKey = kept.entries[names.apiKey] !== key
    const isThere = Object.entries(wanted).every(([name, value]) => kept.entries[name] === value)
    if (isThere && !isNewKey) return kept
    const notes = isNewKey ? { 'key-since': new Date(clock.nowMs()).toISOString() } : {}
    return write(run, { entries: wanted, notes, remove: [stagedEntry(account)] }, kept)
  }

  return {
    async reconcile(merchant, signal) {
      try {
        return await run(merchant, signal)
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof Stop)) throw error
        const { obstacle } = error
        const ids = payments.idsOf(merchant.uid)
        return {
          ids,
          synced: ids !== undefined && obstacle.step !== 'Synced',
          obstacle,
          // A user may change the Secret, or add what is missing, without an event.
          afterMs: obstacle.stalled ? lookMs : undefined,
        }
      }
    },
    async close(uid, signal) {
      const { provisioner } = options
      if (provisioner === undefined) throw new Stop(noPayments)
      await provisioner.close(uid, signal)
      payments.forget(uid)
    },
    forget: payments.forget,
  }
}

/**
 * Remembers the requests to the payments service, so that an unchanged one is repeated only after a while.
 */
function rememberWhatIsTold(clock: Clock, resyncMs: number) {
  const told = new Map<string, Told>()
  return {
    async tell(
      { merchant, wishes, provisioner, signal }: Run,
      key: string,
      otherKeysExpireInMs: number | null,
    ): Promise<Provisioned | ProvisionRejection> {
      const { profile, app, users } = merchant.account
      const keyHash = hashApiKey(key)
      const request = { profile, appName: app.name, keyHash, otherKeysExpireInMs, users, ...wishes }
      const before = told.get(merchant.uid)
      // What webhooks are signed with is part of it, and nothing that has to lie about in memory.
      const digest = hashApiKey(JSON.stringify(request))
      const nowMs = clock.monotonicMs()
      if (before?.digest === digest && nowMs - before.atMs < resyncMs) return before.ids
      const answer = await attempt('PaymentsUnreachable', () =>
        provisioner.provision(merchant.uid, request, signal),
      )
      if ('rejected' in answer) told.delete(merchant.uid)
      else told.set(merchant.uid, { digest, atMs: nowMs, ids: answer })
      return answer
    },
    idsOf: (uid: string) => told.get(uid)?.ids,
    forget: (uid: string) => void told.delete(uid),
  }
}

/** Reads the values that the resource takes from other Secrets. */
async function readWishes(
  { readSecret }: Pick<MerchantsOptions, 'readSecret'>,
  { account: { webhooks, adopt }, namespace }: WantedMerchant,
  signal: AbortSignal,
): Promise<Run['wishes']> {
  const read = new Map<string, ReturnType<typeof readSecret>>()
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
    if (secrets.length === 0) throw new Stop(missing(namespace, secret))
    const faults = secretFaults(secrets)
    if (faults.length > 0) throw new Stop(invalidSecret(`spec.webhooks[${index}].secretRef`, secret, faults))
    found.push({ url, events, secrets })
  }
  if (adopt === undefined) return { webhooks: found }
  const key = await textIn(adopt.apiKey)
  const keyHash = key === undefined ? null : hashApiKey(key)
  return { webhooks: found, adopt: { merchantId: adopt.merchantId, keyHash } }
}

function placeOf({ namespace, name, uid, account }: WantedMerchant): CredentialPlace {
  return { namespace, name: account.secret.name, owner: { name, uid } }
}

type PassingReason = 'SecretUnknown' | 'SecretNotWritten' | 'PaymentsUnreachable'

const stepOf: Readonly<Record<PassingReason, Obstacle['step']>> = {
  SecretUnknown: 'CredentialsReady',
  SecretNotWritten: 'CredentialsReady',
  PaymentsUnreachable: 'Synced',
}

/** Unexpected errors are treated as transient. A missing right waits for an administrator. */
async function attempt<Result>(reason: PassingReason, step: () => Promise<Result>): Promise<Result> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof Stop) throw error
    const { message } = error as Error
    const step = stepOf[reason]
    if (error instanceof SecretForbiddenError) {
      const whole = `${message}. ${error.advice}`
      throw new Stop({ step, reason: 'SecretForbidden', message: whole, stalled: true })
    }
    throw new Stop({ step, reason, message, stalled: false })
  }
}

const noPayments: Obstacle = {
  step: 'Synced',
  reason: 'PaymentsDisabled',
  message: 'no payments service runs here; enable it in the configuration of the operator',
  stalled: true,
}

function foreign({ namespace, name }: CredentialPlace): Obstacle {
  const advice = 'delete it, or name another one in a new Merchant'
  const message = `the Secret ${namespace}/${name} is there and was not made for this Merchant; ${advice}`
  return { step: 'CredentialsReady', reason: 'SecretForeign', message, stalled: true }
}

function missing(namespace: string, { name, key }: SecretEntry): Obstacle {
  const message = `the Secret ${namespace}/${name} does not exist, or its entry ${key} is empty`
  return { step: 'Synced', reason: 'SecretMissing', message, stalled: true }
}

/** One that signs, and one before it while they are exchanged. */
const maxSecrets = 2

/** Of the lines of an entry, by their places. Never a character of a secret. */
function secretFaults(lines: readonly string[]): readonly string[] {
  if (lines.length > maxSecrets) return [`has ${lines.length} lines; 1 or ${maxSecrets} are allowed`]
  return lines.flatMap((line, index) => {
    const fault = webhookSecretFault(line)
    return fault === undefined ? [] : [`line ${index + 1} ${fault}; allowed is ${webhookSecretForm}`]
  })
}

function invalidSecret(path: string, { name, key }: SecretEntry, faults: readonly string[]): Obstacle {
  const message = `${path}: the entry ${key} of the Secret ${name}: ${faults.join('; ')}`
  return { step: 'Synced', reason: 'SecretInvalid', message, stalled: true }
}

const reasons = { closed: 'MerchantClosed', key: 'KeyRefused', invalid: 'Refused' } as const

function toObstacle({ rejected: { why, problems, message } }: ProvisionRejection): Obstacle {
  const said = problems.length > 0 ? problems.map(formatFieldProblem).join('; ') : message
  if (why === 'immutable') {
    const advice = 'the merchant stays as it is; change the field back, or create another Merchant'
    return { step: 'Synced', reason: immutableFieldChanged, message: `${said}; ${advice}`, stalled: true }
  }
  return { step: 'Synced', reason: reasons[why], message: said, stalled: why !== 'key' }
}
