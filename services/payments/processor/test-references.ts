import type { KeyedHashes } from './keyed-hashes.ts'
import { type TestCard, testCardNamed } from './test-cards.ts'

/** Returns `test_<name of the test card>_<hash of the operation>`. */
export function referenceOf(card: TestCard, operationId: string, hashes: KeyedHashes): string {
  return ['test', card.name, hashes.sign('reference', operationId)].join('_')
}

export function cardOfReference(reference: string): TestCard | undefined {
  return testCardNamed(reference.split('_')[1] ?? '')
}
