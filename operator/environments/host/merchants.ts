import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { CredentialReference } from '../../kinds/merchant/credential-store.ts'
import { merchantsKind as kind, merchantSubject } from '../../kinds/merchant/merchant.ts'
import { createMerchantController } from '../../kinds/merchant/merchant-controller.ts'
import type { PaymentAddresses } from '../../kinds/merchant/merchant-reconciler.ts'
import type { MerchantResource, MerchantResources } from '../../kinds/merchant/merchant-resources.ts'
import type { MerchantStatus, MerchantStatusStore } from '../../kinds/merchant/merchant-statuses.ts'
import type { Provisioner } from '../../kinds/merchant/provisioner.ts'
import type { Source, SourcedResource } from '../../kinds/source.ts'
import { qualifiedName } from '../../kinds/source.ts'
import type { MerchantAccount } from '../../model.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import { type CredentialFiles, createCredentialFiles } from './credentials.ts'
import { readFolderSecret } from './secrets.ts'
import { writeAtomically } from './write-atomically.ts'

export interface HostMerchantsOptions {
  readonly source: Pick<Source, 'list' | 'unread' | 'onChange'>
  /** The folder for credentials, and for state that outlives a restart. */
  readonly stateDir: string
  /** undefined if no payments service runs. */
  readonly provisioner: Provisioner | undefined
  readonly addresses: PaymentAddresses
  /** Returns why the payments service's database fails; undefined while it answers. */
  readonly backendFailure: () => string | undefined
  readonly log: Pick<Log, 'debug'>
  /** Called with the statuses of all Merchants after each change of one. */
  readonly writeStatus: (statuses: readonly ResourceStatus[]) => void
}

/** What a deletion of the resource must do. Stored before the merchant is created. */
interface Remembered {
  readonly place: CredentialReference
  readonly onDeletion: MerchantAccount['onDeletion']
}

const concurrency = 2
/** Short, because a payments service that has just started answers within seconds. */
const retries = { initialMs: 250, maxMs: 5_000 }

/** A Merchant in the folder, or one whose manifest was deleted and whose merchant is not closed yet. */
interface HostMerchant extends MerchantResource {
  /** undefined if the manifest was deleted. */
  readonly sourced: SourcedResource | undefined
}

/**
 * Reconciles the Merchants of a folder with the payments service, and writes their credentials and statuses.
 */
export function openHostMerchants(options: HostMerchantsOptions) {
  const { source, stateDir, addresses, provisioner, backendFailure, log } = options
  const files = createCredentialFiles(stateDir)
  const resources = createResources(source, files, openMemory(join(stateDir, 'merchants.json')))
  const statuses = createStatuses(options.writeStatus)
  const controller = createMerchantController({
    resources,
    statuses: statuses.store,
    store: files,
    readSecret: async (namespace, name) => readFolderSecret(source, namespace, name),
    provisioner,
    addresses,
    clock: systemClock,
    randomBytes,
    mayWrite: () => true,
    backendFailure,
    concurrency,
    retries,
    onError(uid, { message }, retryMs) {
      // The status shows the obstacle, so the log has it only at the level debug.
      log.debug('reconcile Merchant failed', { uid, error: message, retryMs: Math.round(retryMs) })
    },
    random: Math.random,
  })
  return {
    ...controller,
    /**
     * Resolves when the first statuses are written. Merchants are then reconciled as soon as the payments
     * service answers.
     */
    async start(): Promise<void> {
      await controller.begin()
      statuses.publish()
      source.onChange(controller.reconcileAll)
      controller.reconcileAll()
    },
  }
}

function createResources(
  source: HostMerchantsOptions['source'],
  files: CredentialFiles,
  remembered: ReturnType<typeof openMemory>,
): MerchantResources<HostMerchant> {
  const sourced = () => source.list().filter(resource => resource.kind === kind.definition.kind)
  return {
    keys: () => new Set([...sourced().map(({ uid }) => uid), ...remembered.uids()]),
    get(uid) {
      const resource = sourced().find(one => one.uid === uid)
      if (resource !== undefined) return toMerchant(resource)
      // An unreadable file may declare the resource.
      if (source.unread().length > 0) return 'unknown'
      const known = remembered.get(uid)
      return known && toDeleted(uid, known)
    },
    async hold(resource, { secret, onDeletion }) {
      const { uid, namespace, name } = resource
      const place = { namespace, name: secret.name, owner: { name, uid } }
      const before = remembered.get(uid)?.place
      remembered.note(uid, { place, onDeletion })
      if (before !== undefined && before.name !== place.name) files.remove(before)
      return resource
    },
    async release({ uid }) {
      const known = remembered.get(uid)
      if (known !== undefined) files.remove(known.place)
      remembered.forget(uid)
    },
  }
}

function toMerchant(sourced: SourcedResource): HostMerchant {
  const { apiVersion, kind, namespace, name, uid, spec, paused, generation, rotation = '' } = sourced
  return {
    key: uid,
    uid,
    namespace,
    name,
    generation,
    paused,
    rotation,
    sourced,
    revision: JSON.stringify([generation, paused, rotation]),
    manifest: { apiVersion, kind, spec, metadata: { name, namespace } },
  }
}

function toDeleted(uid: string, { place, onDeletion }: Remembered): HostMerchant {
  const { namespace, owner } = place
  return {
    key: uid,
    uid,
    namespace,
    name: owner.name,
    paused: false,
    rotation: '',
    generation: undefined,
    manifest: undefined,
    sourced: undefined,
    revision: 'deleted',
    deletion: onDeletion,
  }
}

/** Keeps the statuses in memory, and passes them to `writeStatus` after each change. */
function createStatuses(writeStatus: HostMerchantsOptions['writeStatus']) {
  const known = new Map<string, ResourceStatus>()
  const publish = () =>
    writeStatus([...known.values()].sort((a, b) => (qualifiedName(a) < qualifiedName(b) ? -1 : 1)))
  const store: MerchantStatusStore<HostMerchant> = {
    read({ uid }) {
      const status = known.get(uid)
      return status && { ...status, details: status.details ?? {} }
    },
    async write({ uid, sourced }, status) {
      const before = known.get(uid)
      const after = sourced === undefined ? before && { ...before, ...status } : toStatus(sourced, status)
      if (after === undefined || isDeepStrictEqual(before, after)) return
      known.set(uid, after)
      publish()
    },
    // Reads of files need no rate limit, so a first reconcile is never delayed.
    isSettled: () => false,
    forget(uid) {
      known.delete(uid)
      publish()
    },
  }
  return { publish, store }
}

function toStatus(
  { namespace, name, uid, origin, spec }: SourcedResource,
  { details, ...status }: MerchantStatus,
): ResourceStatus {
  return {
    kind: kind.definition.kind,
    namespace,
    name,
    uid,
    origin,
    details,
    ...status,
    subject: merchantSubject(spec),
    counts: {},
    enforced: '',
  }
}

/**
 * Opens the file with what deletions must do. Throws if the file cannot be read, because merchants could stay
 * open.
 */
function openMemory(path: string) {
  const known = new Map<string, Remembered>(Object.entries(readMemory(path)))
  const write = () => writeAtomically(path, `${JSON.stringify(Object.fromEntries(known))}\n`)
  return {
    get: (uid: string) => known.get(uid),
    uids: () => known.keys(),
    note(uid: string, entry: Remembered): void {
      if (JSON.stringify(known.get(uid)) === JSON.stringify(entry)) return
      known.set(uid, entry)
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
