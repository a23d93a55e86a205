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

export interface MerchantStatus {
  readonly observedGeneration: number
  readonly conditions: readonly StatusCondition[]
  readonly problems: readonly ResourceProblem[]
  readonly details: MerchantDetails
}

export interface MerchantStatusStore<Resource extends MerchantResource> {
  read(resource: Resource): MerchantStatus | undefined
  /** Stores the status if it differs from the stored one. */
  write(resource: Resource, status: MerchantStatus): Promise<void>
  /** Returns whether the stored status says that the present state of the resource is in force. */
  isSettled(resource: Resource): boolean
  forget(key: string): void
}

interface MerchantFindings {
  readonly facts: MerchantFacts
  /** undefined if the resource is invalid or being deleted. Then the details of the status stay. */
  readonly account?: MerchantAccount
  readonly ids?: Provisioned | undefined
}

export interface MerchantStatusOptions {
  readonly addresses: PaymentAddresses
  /** Returns why the payments service's database fails; undefined while it answers. */
  readonly backendFailure: () => string | undefined
  readonly clock: Clock
}

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
    // A paused resource keeps its `observedGeneration`, because its newest state is not applied.
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

  /** Adds the condition Paused. All others stay, except Degraded, which is updated. */
  async pause(resource: Resource): Promise<void> {
    const { observedGeneration = 0, conditions = [], details = {} } = this.#store.read(resource) ?? {}
    const before = { observedGeneration, conditions }
    const status = this.#withConditions(before, pausedConditions(conditions))
    await this.#store.write(resource, { ...status, problems: [], details })
  }

  /** Updates the condition Degraded in a stored status. Without a stored status, the first write adds it. */
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
