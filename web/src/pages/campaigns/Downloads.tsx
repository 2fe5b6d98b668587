import { Download } from '@/parts/Download'

const FORMS = [
  ['csv', 'CSV', 'one line per job and metric'],
  ['json', 'JSON', 'the whole result document'],
  ['html', 'HTML', 'the report, in one file'],
] as const

/** The results to take away. */
export function Downloads({ campaign }: { campaign: string }) {
  return (
    <span className="downloads">
      <span className="quiet" aria-hidden="true">
        Download
      </span>
      {FORMS.map(([form, name, says]) => (
        <Download
          key={form}
          className="button plain"
          path={`/api/v1/campaigns/${encodeURIComponent(campaign)}/results.${form}`}
          name={`${campaign}.${form}`}
          label={`Download ${name}: ${says}`}
        >
          {name}
        </Download>
      ))}
    </span>
  )
}
