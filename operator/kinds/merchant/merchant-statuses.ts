import type { Clock } from '@tollway/chassis/clock.ts'
import type { MerchantAccount } from '../../model.ts'
import { type NewCondition, type StatusCondition, withTransitionTimes } from '../../status/conditions.ts'
import { degraded } from '../../status/resource-status.ts'
import type { ResourceProblem } from '../kind-adapter.ts'
import { type MerchantDetails, makeDetails } from './merchant.ts'
import {
  deriveMerchantConditions,
  type MerchantFacts,
  pausedConditions,
  withoutDegraded,
} from './merchant-conditions.ts'
import type { PaymentAddresses } from './merchant-reconciler.ts'
import type { MerchantResource } from './merchant-resources.ts'
import type { Provisioned } from './provisioner.ts'

/** The status of a Merchant. */
export interface MerchantStatus {
  readonly observedGeneration: number
  readonly conditions: readonly StatusCondition[]
  /** The problems of the spec. */
  readonly problems: readonly ResourceProblem[]
  readonly details: MerchantDetails
}

/** The place where an environment stores the statuses of its Merchants. */
export interface MerchantStatusStore<Resource extends MerchantResource> {
  /** Returns the last status; undefined before the first one. */
  read(resource: Resource): MerchantStatus | undefined
  /** Stores the status if it differs from the stored one. */
  write(resource: Resource, status: MerchantStatus): Promise<void>
  /** Reports whether the status says that the present state of the resource is in force. */
  isSettled(resource: Resource): boolean
  forget(key: string): void
}

/** The result of a reconcile of one resource. */
interface MerchantFindings {
  readonly facts: MerchantFacts
  /** Undefined for a resource that is invalid or being deleted: the details of its status stay. */
  readonly account?: MerchantAccount
  readonly ids?: Provisioned | undefined
}

export interface MerchantStatusOptions {
  readonly addresses: PaymentAddresses
  /** The cause of a failure of the payments service's database; undefined while it answers. */
  readonly backendFailure: () => string | undefined
  readonly clock: Clock
}

/** Derives the statuses of Merchants, and stores them. */
export class MerchantStatuses<Resource extends MerchantResource> {
  readonly #store: MerchantStatusStore<Resource>
  readonly #options: MerchantStatusOptions

  constructor(store: MerchantStatusStore<Resource>, options: MerchantStatusOptions) {
    this.#store = store
    this.#options = options
  }

  async write(resource: Resource, { facts, account, ids }: MerchantFindings): Promise<void> {
    const before = this.#store.read(resource)
    const { generation = before?.observedGeneration ?? 0, paused, deletion } = resource
    // The newest generation of a paused resource is not observed.
    const isHeld = paused && deletion === undefined
    await this.#store.write(resource, {
      ...this.#withConditions(
        { ...before, observedGeneration: isHeld ? (before?.observedGeneration ?? 0) : generation },
        deriveMerchantConditions(facts),
      ),
      problems: facts.problems,
      details: makeDetails(account, ids, this.#options.addresses, before?.details ?? {}),
    })
  }

  /** Adds that the resource is paused. Its other conditions stay. */
  async pause(resource: Resource): Promise<void> {
    const { observedGeneration = 0, conditions = [], details = {} } = this.#store.read(resource) ?? {}
    const before = { observedGeneration, conditions }
    const status = this.#withConditions(before, pausedConditions(conditions))
    await this.#store.write(resource, { ...status, problems: [], details })
  }

  /** Writes the condition Degraded as it is now. A resource without a status gets it with its first one. */
  async refreshDegraded(resource: Resource): Promise<void> {
    const before = this.#store.read(resource)
    if (before === undefined) return
    await this.#store.write(resource, { ...before, ...this.#withConditions(before, before.conditions) })
  }

  #withConditions(
    {
      observedGeneration,
      conditions = [],
    }: Partial<MerchantStatus> & Pick<MerchantStatus, 'observedGeneration'>,
    fresh: readonly NewCondition[],
  ): Pick<MerchantStatus, 'observedGeneration' | 'conditions'> {
    const { backendFailure, clock } = this.#options
    const all = [...withoutDegraded(fresh), ...degraded(backendFailure())]
    return {
      observedGeneration,
      conditions: withTransitionTimes(conditions, all, observedGeneration, clock.nowMs()),
    }
  }
}
