import { createHmac, timingSafeEqual } from 'node:crypto'
import { findTestCardByName, type TestCard } from './test-cards.ts'

/** Returns `test_<name of the test card>_<hash of the operation id>`. */
export function createReference(card: TestCard, operationId: string, hashes: KeyedHashes): string {
  return ['test', card.name, hashes.sign('reference', operationId)].join('_')
}

export function findReferencedCard(reference: string): TestCard | undefined {
  return findTestCardByName(reference.split('_')[1] ?? '')
}

/** The test processor recognises the tokens and authentications that it issued by these hashes. */
export class KeyedHashes {
  readonly #key: Uint8Array

  constructor(key: Uint8Array) {
    this.#key = key
  }

  sign(...parts: readonly string[]): string {
    return createHmac('sha256', this.#key).update(JSON.stringify(parts)).digest('hex').slice(0, 32)
  }

  isSignature(found: string, ...parts: readonly string[]): boolean {
    const expected = Buffer.from(this.sign(...parts))
    const given = Buffer.from(found)
    return given.length === expected.length && timingSafeEqual(given, expected)
  }
}
