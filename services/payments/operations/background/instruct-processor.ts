import {
  claimDueInstructions,
  type ProcessorInstruction,
  postponeInstruction,
  removeInstructions,
} from '../../storage/delivery/processor-instructions.ts'
import { chooseProcessor, type Payments } from '../operation.ts'

export const maxInstructionsAtOnce = 50
/**
 * How long claimed calls of the processor are reserved for this process. If the process ends before it stores
 * the outcome, they are due again after this time.
 */
export const processorLeaseMs = 60_000
const firstWaitMs = 1_000
const maxWaitMs = 300_000

/** Returns the wait after a failed call of the processor: 1 second, doubled after each try up to 5 minutes. */
export function processorRetryMs(tries: number): number {
  return Math.min(maxWaitMs, firstWaitMs * 2 ** Math.min(tries - 1, 20))
}

/**
 * Sends due instructions to the processor: each at least once, and the instructions of one transaction in the
 * order of the trail. Retries failed instructions.
 *
 * @returns the number of claimed instructions, and the failures
 */
export async function instructProcessor(
  payments: Payments,
): Promise<{ readonly due: number; readonly failures: readonly InstructionFailure[] }> {
  const { storage, clock } = payments
  const nowMs = clock.nowMs()
  const due = await storage.transaction(tx =>
    claimDueInstructions(tx, nowMs, nowMs + processorLeaseMs, maxInstructionsAtOnce),
  )
  const results = await Promise.all(due.map(instruction => sendInstruction(payments, instruction)))
  const acknowledged = due.filter((_, index) => results[index] === undefined)
  // If this transaction fails, the instructions are sent again with the same operation ids, which changes
  // nothing.
  if (acknowledged.length > 0) await storage.transaction(tx => removeInstructions(tx, acknowledged))
  return { due: due.length, failures: results.filter(result => result !== undefined) }
}

interface InstructionFailure {
  readonly transactionId: string
  readonly kind: ProcessorInstruction['kind']
  readonly attempts: number
  readonly reason: string
}

async function sendInstruction(
  payments: Payments,
  instruction: ProcessorInstruction,
): Promise<InstructionFailure | undefined> {
  const { storage, clock } = payments
  const { transactionId, kind, operationId, reference, amount, currency, attempts } = instruction
  const processor = chooseProcessor(payments, instruction)
  try {
    if (processor === null) throw new Error('no card processor is configured for live merchants')
    await processor[kind]({ operationId, reference, amount, currency })
  } catch (error) {
    const dueMs = clock.nowMs() + processorRetryMs(attempts)
    await storage.transaction(tx => postponeInstruction(tx, instruction, dueMs))
    return { transactionId, kind, attempts, reason: (error as Error).message }
  }
  return undefined
}
