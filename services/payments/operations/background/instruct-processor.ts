import {
  claimDueInstructions,
  type ProcessorInstruction,
  postponeInstruction,
  removeInstructions,
} from '../../storage/delivery/processor-instructions.ts'
import { type Payments, processorOf } from '../operation.ts'

/** How many instructions one round takes. */
export const maxInstructionsAtOnce = 50
/** The lease of instructions that a process has taken. Another process takes them after it. */
const leaseMs = 60_000
const firstWaitMs = 1_000
const maxWaitMs = 300_000

/**
 * Sends the decisions of the books to the processor, at least once, and for each transaction in the order of
 * its trail. Failed instructions are repeated with doubling waits.
 *
 * @returns the number of due instructions, and those that failed
 */
export async function instructProcessor(
  payments: Payments,
): Promise<{ readonly due: number; readonly failures: readonly InstructionFailure[] }> {
  const { storage, clock } = payments
  const nowMs = clock.nowMs()
  const due = await storage.transaction(tx =>
    claimDueInstructions(tx, nowMs, nowMs + leaseMs, maxInstructionsAtOnce),
  )
  const results = await Promise.all(due.map(instruction => tell(payments, instruction)))
  const told = due.filter((_, index) => results[index] === undefined)
  // If this transaction fails, they are sent again under the same ids.
  if (told.length > 0) await storage.transaction(tx => removeInstructions(tx, told))
  return { due: due.length, failures: results.filter(result => result !== undefined) }
}

export interface InstructionFailure {
  readonly transactionId: string
  readonly kind: ProcessorInstruction['kind']
  readonly attempts: number
  readonly reason: string
}

async function tell(
  payments: Payments,
  instruction: ProcessorInstruction,
): Promise<InstructionFailure | undefined> {
  const { storage, clock } = payments
  const { transactionId, kind, operationId, reference, amount, currency, attempts } = instruction
  const processor = processorOf(payments, instruction)
  try {
    if (processor === null) throw new Error('no processor is configured for accounts that are not for tests')
    await processor[kind]({ operationId, reference, amount, currency })
  } catch (error) {
    const waitMs = Math.min(maxWaitMs, firstWaitMs * 2 ** Math.min(attempts - 1, 20))
    await storage.transaction(tx => postponeInstruction(tx, instruction, clock.nowMs() + waitMs))
    return { transactionId, kind, attempts, reason: (error as Error).message }
  }
  return undefined
}
