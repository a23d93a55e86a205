import { isObject } from '@tollway/chassis/is-object.ts'
import { parseJson } from '@tollway/chassis/json.ts'
import type { SettingKind } from '@tollway/chassis/settings.ts'
import { parseRateTable, type RateTable } from './domain/money/exchange.ts'
import { type FeeRuleText, type FeeTable, parseFeeTable } from './domain/money/fees.ts'
import { isCurrency } from './domain/money/money.ts'

/** A setting with at least one currency code of ISO 4217, separated by commas. */
export const currencies: SettingKind<readonly string[]> = {
  allowed: 'currencies of ISO 4217 such as DKK,EUR',
  parse: value => {
    const codes = value.split(',').map(code => code.trim())
    return codes.every(isCurrency) ? codes : undefined
  },
}

/**
 * A setting with exchange rates: how many major units of each currency one major unit of the base currency is
 * worth.
 */
export const rateTable: SettingKind<RateTable> = {
  allowed: 'JSON such as {"base": "EUR", "rates": {"DKK": "7.46"}}, with rates as strings of decimal numbers',
  parse: value => {
    const json = parseJson(value)
    if (!isObject(json) || typeof json['base'] !== 'string' || !isTexts(json['rates'])) return undefined
    const parsed = parseRateTable(json['base'], json['rates'])
    return 'table' in parsed ? parsed.table : undefined
  },
}

/** A setting with the fees, by funding currency and operation. */
export const feeTable: SettingKind<FeeTable> = {
  allowed:
    'JSON such as {"DKK": {"capture": {"flat": "25", "rate": "0.0135"}}}, for capture, refund and dispute, ' +
    'with numbers as strings',
  parse: value => {
    const json = parseJson(value)
    if (!isObject(json) || !Object.values(json).every(isRules)) return undefined
    const parsed = parseFeeTable(json as Readonly<Record<string, Readonly<Record<string, FeeRuleText>>>>)
    return 'table' in parsed ? parsed.table : undefined
  },
}

/** A setting with a time of day, as minutes since midnight; null if the setting is empty. */
export const timeOfDay: SettingKind<number | null> = {
  allowed: 'a time of day such as 04:30, or empty',
  parse: value => {
    if (value === '') return null
    const [, hours, minutes] = /^([01]\d|2[0-3]):([0-5]\d)$/.exec(value) ?? []
    return hours === undefined ? undefined : Number(hours) * 60 + Number(minutes)
  },
}

function isRules(rules: unknown): boolean {
  return isObject(rules) && Object.values(rules).every(isTexts)
}

function isTexts(fields: unknown): fields is Readonly<Record<string, string>> {
  return isObject(fields) && Object.values(fields).every(field => typeof field === 'string')
}
