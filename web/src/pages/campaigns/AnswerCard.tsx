import type { Api } from '@/api/client'
import { Card } from '@/parts/Card'

/** What the campaign answers, in a few sentences. */
export function AnswerCard({ answer }: { answer: Api<'WrittenAnswer'> }) {
  return (
    <Card title="Answer" aside={<span className="quiet">{answer.title}</span>}>
      <div className="answer">
        {answer.sentences.map((one) => (
          <p key={one}>{one}</p>
        ))}
      </div>
    </Card>
  )
}
