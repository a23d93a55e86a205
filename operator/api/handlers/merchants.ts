import type {
  BooksVerification,
  MerchantBalances,
  MerchantBooks,
  MoneyAmount,
} from '../../kinds/merchant/merchant-books.ts'
import { qualifiedName } from '../../kinds/source.ts'
import { paginate } from '../../ratelimit-queries/pages.ts'
import type { ResourceStatus } from '../../status/resource-status.ts'
import { findCondition } from '../../status/status-report.ts'
import type { MerchantList } from '../shapes.ts'
import { type Handler, optionalText, readPage } from './handler.ts'
import { selectResources } from './resources.ts'

type Item = MerchantList['items'][number]

/** Lists the merchants of resources. Balances are left out if the payments service does not answer. */
export const merchantsHandler: Handler = {
  resolveScope: call => ({ namespace: optionalText(call, 'namespace') }),
  async answer(call): Promise<MerchantList> {
    const chosen = selectResources(call, 'Merchant')
    const page = paginate(chosen, qualifiedName, readPage(call))
    const uids = page.items.map(({ uid }) => uid)
    const { problem, ...books } = await call.sources.books(uids).then(
      found => ({ ...found, problem: '' }),
      (error: Error) => ({ ...noBooks, problem: error.message }),
    )
    const isOneNamespace = optionalText(call, 'namespace') !== undefined
    return {
      ...page,
      items: page.items.map(resource => describeMerchant(resource, books.balances.get(resource.uid))),
      booksProblem: problem,
      lastVerify:
        books.lastVerify === undefined ? null : describeVerify(books.lastVerify, chosen, isOneNamespace),
    }
  },
}

const noBooks: MerchantBooks = { balances: new Map(), lastVerify: undefined }

function describeMerchant(resource: ResourceStatus, balances: MerchantBalances | undefined): Item {
  const { status, reason, message } = findCondition(resource, 'CredentialsReady')
  const { namespace, name, subject, details, conditions } = resource
  return {
    namespace,
    name,
    subject,
    details: { ...details },
    credentials: { ready: status === 'True', reason, message },
    conditions: [...conditions],
    ...(balances && { balances: describeBalances(balances) }),
  }
}

const describeBalances = ({ available, pending }: MerchantBalances) => ({
  available: describeMoney(available),
  pending: pending.map(describeMoney),
})

const describeMoney = ({ currency, amount, exponent }: MoneyAmount) => ({ currency, amount, exponent })

/**
 * Describes a proof of the books. A caller with the right for one namespace gets no merchant ids of other
 * namespaces.
 */
function describeVerify(
  { beganMs, endedMs, findings, records, shown }: BooksVerification,
  merchants: readonly ResourceStatus[],
  isOneNamespace: boolean,
): MerchantList['lastVerify'] {
  const names = new Map(merchants.map(resource => [resource.uid, qualifiedName(resource)]))
  const named = shown.map(({ uid = '', record, message }) => ({
    merchant: names.get(uid) ?? '',
    record,
    message,
  }))
  return {
    beganMs,
    endedMs,
    passed: findings === 0,
    findings,
    records: { ...records },
    shown: isOneNamespace ? named.filter(({ merchant }) => merchant !== '') : named,
  }
}
