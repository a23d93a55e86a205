import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { createWorkQueue, type Outcome } from '../../controller/work-queue.ts'
import type { MerchantAccount } from '../../ir.ts'
import type { CredentialPlace } from '../../kinds/merchant/credential-store.ts'
import {
  detailsOf,
  merchants as kind,
  type MerchantDetails,
  merchantSubject,
} from '../../kinds/merchant/merchant.ts'
import { deriveMerchantConditions, pausedConditions } from '../../kinds/merchant/merchant-status.ts'
import {
  createMerchants,
  type MerchantsTiming,
  type PaymentAddresses,
} from '../../kinds/merchant/merchants.ts'
import type { Provisioner } from '../../kinds/merchant/provisioner.ts'
import { translateMerchant } from '../../kinds/merchant/translate-merchant.ts'
import { nameOf } from '../../reconcilers/choose-contents.ts'
import type { Source, SourcedResource } from '../../sources/source.ts'
import { type NewCondition, withTransitionTimes } from '../../status/conditions.ts'
import { degraded, type ResourceStatus } from '../../status/resource-status.ts'
import { createCredentialFiles } from './credential-files.ts'
import { readFolderSecret } from './folder/folder-secrets.ts'
import { writeAtomically } from './write-atomically.ts'

export interface StandaloneMerchantsOptions {
  readonly source: Pick<Source, 'list' | 'unread' | 'onChange'>
  /** Where the credentials are kept, and what outlives a restart. */
  readonly stateDir: string
  /** undefined where no payments service runs. */
  readonly provisioner: Provisioner | undefined
  readonly addresses: PaymentAddresses
  /** Why the database of the payments service fails; undefined while it answers. */
  readonly backendFailure?: () => string | undefined
  readonly log: Pick<Log, 'debug' | 'warn'>
  /** Given the statuses of all of them, after each look at any. */
  readonly writeStatus: (statuses: readonly ResourceStatus[]) => void
  readonly timing?: Partial<MerchantsTiming>
}

export interface StandaloneMerchants {
  /** Tells what is there at once; the merchants follow as soon as the payments service answers. */
  start(): void
  /** Something beside the resources may have changed. */
  trigger(): void
  stop(): Promise<void>
}

/** What has to be done when a resource is gone, noted before there is a merchant. */
interface Remembered {
  readonly place: CredentialPlace
  readonly onDeletion: MerchantAccount['onDeletion']
}

const concurrency = 2
/** A payments service that has just been started answers within seconds. */
const retries = { initialMs: 250, maxMs: 5_000 }

/** The Merchants of a folder: to the payments service on this machine, their files and their statuses. */
export function openStandaloneMerchants(options: StandaloneMerchantsOptions): StandaloneMerchants {
  const { source, stateDir, addresses, log } = options
  const stopping = new AbortController()
  const files = createCredentialFiles(stateDir)
  const remembered = openMemory(join(stateDir, 'merchants.json'))
  const statuses = new Map<string, ResourceStatus>()
  const merchants = createMerchants({
    store: files,
    readSecret: async (namespace, name) => readFolderSecret(source, namespace, name),
    provisioner: options.provisioner,
    addresses,
    clock: systemClock,
    randomBytes,
    ...(options.timing && { timing: options.timing }),
  })

  const present = () => source.list().filter(resource => resource.kind === kind.definition.kind)

  async function look(uid: string): Promise<Outcome> {
    const resource = present().find(one => one.uid === uid)
    return resource === undefined ? leave(uid) : bringAbout(resource)
  }

  /** While a file cannot be read, the resource may stand there. */
  async function leave(uid: string): Promise<Outcome> {
    if (source.unread().length > 0) return 'done'
    const known = remembered.get(uid)
    if (known?.onDeletion === 'close') await close(uid, known)
    if (known !== undefined) files.remove(known.place)
    remembered.forget(uid)
    merchants.forget(uid)
    statuses.delete(uid)
    tell()
    return 'done'
  }

  async function close(uid: string, { place }: Remembered): Promise<void> {
    try {
      await merchants.close(uid, stopping.signal)
    } catch (error) {
      const details = {
        merchant: nameOf({ ...place, name: place.owner.name }),
        error: (error as Error).message,
      }
      log.warn('the merchant of a resource that is gone is not closed yet', details)
      throw error
    }
  }

  async function bringAbout(resource: SourcedResource): Promise<Outcome> {
    const { uid, namespace, name, rotation = '' } = resource
    if (resource.paused) {
      note(resource, { conditions: pausedConditions(statuses.get(uid)?.conditions ?? []) })
      return 'done'
    }
    const translation = translate(resource)
    if ('problems' in translation) {
      const { problems } = translation
      const facts = { problems, obstacle: undefined, synced: false }
      note(resource, { conditions: deriveMerchantConditions(facts), problems })
      return 'done'
    }
    const { value: account } = translation
    const place = { namespace, name: account.secret.name, owner: { name, uid } }
    const before = remembered.get(uid)?.place
    remembered.note(uid, { place, onDeletion: account.onDeletion })
    if (before !== undefined && before.name !== place.name) files.remove(before)
    const outcome = await merchants.reconcile({ uid, namespace, name, account, rotation }, stopping.signal)
    const { obstacle, synced, ids, afterMs } = outcome
    const details = detailsOf(account, ids, addresses, statuses.get(uid)?.details ?? {})
    note(resource, { conditions: deriveMerchantConditions({ problems: [], obstacle, synced }), details })
    if (afterMs === undefined) throw new Error(`${obstacle?.reason}: ${obstacle?.message}`)
    return { afterMs }
  }

  function note(resource: SourcedResource, found: Found): void {
    const conditions = [...found.conditions, ...degraded(options.backendFailure?.())]
    statuses.set(resource.uid, toStatus(resource, { ...found, conditions }, statuses.get(resource.uid)))
    tell()
  }

  function tell(): void {
    options.writeStatus([...statuses.values()].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1)))
  }

  const queue = createWorkQueue({
    concurrency,
    reconcile: look,
    random: Math.random,
    retries,
    onError(uid, error, retryMs) {
      if (stopping.signal.aborted) return
      const details = { uid, error: (error as Error).message, retryMs: Math.round(retryMs) }
      // What lasts is told by its status.
      log.debug('a Merchant is not as it should be', details)
    },
  })

  function lookAtAll(): void {
    for (const uid of new Set([...present().map(({ uid }) => uid), ...remembered.uids()])) queue.add(uid)
  }

  return {
    start() {
      for (const resource of present()) {
        const facts = { problems: [], obstacle: undefined, synced: false }
        note(resource, { conditions: deriveMerchantConditions(facts) })
      }
      tell()
      source.onChange(lookAtAll)
      lookAtAll()
    },
    trigger: lookAtAll,
    async stop() {
      stopping.abort()
      await queue.stop()
    },
  }
}

function translate({ apiVersion, kind, namespace, name, spec }: SourcedResource) {
  return translateMerchant(`${namespace}/${name}`, {
    ...{ apiVersion, kind, spec },
    metadata: { name, namespace },
  })
}

interface Found {
  readonly conditions: readonly NewCondition[]
  readonly problems?: ResourceStatus['problems']
  readonly details?: MerchantDetails
}

function toStatus(
  { namespace, name, uid, origin, generation, paused, spec }: SourcedResource,
  { conditions, problems = [], details }: Found,
  before: ResourceStatus | undefined,
): ResourceStatus {
  // Of a paused one the newest generation is not looked at.
  const observedGeneration = paused ? (before?.observedGeneration ?? 0) : generation
  const old = before?.conditions ?? []
  return {
    kind: kind.definition.kind,
    ...{ namespace, name, uid, origin, observedGeneration },
    subject: merchantSubject(spec),
    counts: {},
    enforced: '',
    problems,
    details: { ...before?.details, ...details },
    conditions: withTransitionTimes(old, conditions, observedGeneration, systemClock.nowMs()),
  }
}

/** Written down before it is acted upon. Throws when it cannot be read: a merchant could stay open. */
function openMemory(path: string) {
  const known = new Map<string, Remembered>(Object.entries(readMemory(path)))
  const write = () => writeAtomically(path, `${JSON.stringify(Object.fromEntries(known))}\n`)
  return {
    get: (uid: string) => known.get(uid),
    uids: () => known.keys(),
    note(uid: string, wish: Remembered): void {
      if (JSON.stringify(known.get(uid)) === JSON.stringify(wish)) return
      known.set(uid, wish)
      write()
    },
    forget(uid: string): void {
      if (known.delete(uid)) write()
    },
  }
}

function readMemory(path: string): Readonly<Record<string, Remembered>> {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Readonly<Record<string, Remembered>>
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw error
  }
}
