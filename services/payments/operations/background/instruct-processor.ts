import {
  claimDueInstructions,
  type ProcessorInstruction,
  postponeInstruction,
  removeInstructions,
} from '../../storage/delivery/processor-instructions.ts'
import { chooseProcessor, type Payments } from '../operation.ts'

/** The most instructions that one round claims. */
export const maxInstructionsAtOnce = 50
/**
 * The lease of claimed instructions. If a process ends before it removes them, they are due again after this
 * time.
 */
const leaseMs = 60_000
const firstWaitMs = 1_000
const maxWaitMs = 300_000

/**
 * Sends the recorded instructions to the processor, at least once, and for each transaction in the order of
 * its trail. A failed instruction is retried after waits that double.
 *
 * @returns the number of due instructions, and the failures
 */
export async function instructProcessor(
  payments: Payments,
): Promise<{ readonly due: number; readonly failures: readonly InstructionFailure[] }> {
  const { storage, clock } = payments
  const nowMs = clock.nowMs()
  const due = await storage.transaction(tx =>
    claimDueInstructions(tx, nowMs, nowMs + leaseMs, maxInstructionsAtOnce),
  )
  const results = await Promise.all(due.map(instruction => sendInstruction(payments, instruction)))
  const told = due.filter((_, index) => results[index] === undefined)
  // If this transaction fails, the instructions are sent again under the same operation ids.
  if (told.length > 0) await storage.transaction(tx => removeInstructions(tx, told))
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
    const waitMs = Math.min(maxWaitMs, firstWaitMs * 2 ** Math.min(attempts - 1, 20))
    await storage.transaction(tx => postponeInstruction(tx, instruction, clock.nowMs() + waitMs))
    return { transactionId, kind, attempts, reason: (error as Error).message }
  }
  return undefined
}
