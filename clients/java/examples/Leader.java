import com.example.baton.Baton;
import com.example.baton.Lead;
import com.example.baton.LeadLostException;

/** Works while this replica leads. */
public class Leader {
  public static void main(String[] arguments) {
    Baton baton = Baton.create();
    while (true) {
      try (Lead lead = baton.leading("scheduler")) {
        while (lead.isValid()) {
          System.out.println("acting with token " + lead.token());
          Thread.sleep(500);
        }
      } catch (InterruptedException | LeadLostException over) {
        System.out.println("the lead is over");
      }
    }
  }
}
